"""Branches, custom functions, compiled and scripted parts, states, in-place ops and outputs of all kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes

CONTROL = Family()
construct = CONTROL.construct


def _chain(s: Sizes, run: Any, out: int, **parts: Any) -> tuple[nn.Module, Tensor]:
    """linear, something, linear"""
    return Small(
        lambda m, x: m.leave(run(m, m.enter(x))), enter=nn.Linear(s.x, s.a), leave=nn.Linear(out, s.o), **parts
    ), s.sequence()  # fmt: skip


@construct("a branch on the width", refused={"enter.weight[0]": "takes another branch"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(h) if h.shape[-1] > 7 else torch.relu(h), s.a)


@construct("a branch on the length of the data", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(h) if h.shape[1] > 3 else torch.relu(h), s.a)


@construct("a branch on whether it is trained", "enter.weight[0]", "noise[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(
        s, lambda m, h: torch.tanh(h * (m.noise + 0.1 * torch.randn_like(h) if m.training else m.noise)), s.a,
        noise=weight(s.a),
    )  # fmt: skip


@construct("a branch on values", refused={"enter.weight[0]": "a factor that no parameter can take over"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(h) if h[0, 0].sum() > 100 else torch.relu(h), s.a)


@construct("where on the sign", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.where(h > 0, h * m.up, h * m.down), s.a, up=weight(s.a), down=weight(s.a))


class Doubled(torch.autograd.Function):
    """Twice the positive part."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return 2 * x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return 2 * gradient * (ctx.saved_tensors[0] > 0)


@construct("a custom autograd function", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: Doubled.apply(h), s.a)


class Product(torch.autograd.Function):
    """A linear layer with a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w.t()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return gradient @ w, torch.einsum("bti,btj->ij", gradient, x)


@construct("a custom linear function", "enter.weight[0]", "w[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(Product.apply(torch.tanh(h), m.w)), s.b, w=weight(s.b, s.a))


@construct("a function of numpy in the middle", refused={"enter.weight[0]": "its values leave torch"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.from_numpy(h.detach().numpy() * 2.0), s.a)


@construct("checkpointed", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(
        s, lambda m, h: torch.tanh(checkpoint(m.mid, torch.tanh(h), use_reentrant=False)), s.b,
        mid=nn.Linear(s.a, s.b),
    )  # fmt: skip


class Feed(nn.Module):
    """A feed-forward layer."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


@construct("a scripted part", refused={"enter.weight[0]": "a scripted module computes it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: m.mid(h), s.a, mid=torch.jit.script(Feed(s.a, s.b)))


@construct("a compiled part", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: m.mid(h), s.a, mid=torch.compile(Feed(s.a, s.b), backend="eager"))


@construct("mapped over the batch", "enter.weight[0]", "w[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.vmap(lambda row: torch.tanh(row @ m.w.t()))(h), s.b, w=weight(s.b, s.a))


@construct("a derivative in the forward pass", "enter.weight[0]", refused={"mid.bias[0]": "no op that growkit knows"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        with torch.enable_grad():
            h = h.detach().requires_grad_()
            return torch.autograd.grad(torch.tanh(m.mid(h)).sum(), h)[0]

    return _chain(s, mid, s.a, mid=nn.Linear(s.a, s.b))


@construct("without gradients, and detached", "enter.weight[0]", "teacher.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        with torch.no_grad():
            target = torch.tanh(m.teacher(h))
        return torch.tanh(h.detach() + m.back(target))

    return _chain(s, mid, s.a, teacher=nn.Linear(s.a, s.b), back=nn.Linear(s.b, s.a))


@construct("in-place ops of all kinds", refused={"enter.weight[0]": "picked by a mask"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        h = F.relu(h.clone(), inplace=True).mul_(2).add_(m.shift)
        h[:, 0] = m.first
        h[:, 1:] += 1.0
        h[h > 3] = 0.5
        return h.clamp_(max=5).sub_(h.mean(1, keepdim=True))

    return _chain(s, mid, s.a, shift=weight(s.a), first=weight(s.a))


@construct("units written into by number", refused={"enter.weight[0]": "picked by their number"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        h = h.clone()
        h[..., 0] = 1.0
        h[..., -1] *= 2.0
        return torch.tanh(h)

    return _chain(s, mid, s.a)


@construct("one unit read as a gate", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(h) * torch.sigmoid(h[..., :1]) + h[..., -1:], s.a)


@construct("a sum over units, as a gate for all", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(h) * torch.sigmoid(h.sum(-1, keepdim=True)), s.a)


@construct("a mean over units, taken away", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(h - h.mean(-1, keepdim=True)), s.a)


@construct("the largest unit, taken away", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(h - h.amax(-1, keepdim=True)), s.a)


@construct("a standard deviation with Bessel's correction", refused={"enter.weight[0]": "the number of units less 1"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: torch.tanh(m.gain * h / (h.std(-1, keepdim=True) + 1e-6)), s.a, gain=weight(s.a))


@construct("RMSNorm by hand", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(
        s, lambda m, h: m.gain * (h.float() * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(h),
        s.a, gain=weight(s.a),
    )  # fmt: skip


@construct("normalised to the unit sphere, scaled by the root of the width", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: F.normalize(h, dim=-1) * m.gain * h.shape[-1] ** 0.5, s.a, gain=weight(s.a))


@construct("clipped by its norm")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(s, lambda m, h: h / torch.clamp(h.norm(dim=-1, keepdim=True), min=1.0), s.a)


@construct("gated by a carry (highway)", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        gate = torch.sigmoid(m.gate(h))
        return gate * torch.relu(m.value(h)) + (1 - gate) * h

    return _chain(s, mid, s.a, gate=nn.Linear(s.a, s.a), value=nn.Linear(s.a, s.a))


@construct("layer scale and stochastic depth", "enter.weight[0]", "block.up.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        keep = (torch.rand(h.shape[0], 1, 1) > 0.3).to(h) / 0.7 if m.training else 1.0
        return h + keep * m.gamma * m.block(h)

    return _chain(s, mid, s.a, block=Feed(s.a, s.b), gamma=weight(s.a))


@construct("scaled by scalar parameters", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        return torch.tanh(m.alpha * h + m.beta) * m.gates[0] + h * m.gates.softmax(0)[1]

    return _chain(
        s, mid, s.a, alpha=nn.Parameter(torch.tensor(0.5)), beta=nn.Parameter(torch.zeros(1)), gates=weight(2)
    )  # fmt: skip


@construct("frozen parameters", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = _chain(s, lambda m, h: torch.tanh(m.mid(h)), s.b, mid=nn.Linear(s.a, s.b))
    for parameter in model.enter.parameters():
        parameter.requires_grad_(False)
    return model, x


@construct("parameters in a list and a dict", "enter.weight[0]", "ws.0[1]", "by_name.up[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        for w in m.ws:
            h = torch.tanh(h @ w)
        return torch.tanh(h @ m.by_name["up"]) @ m.by_name["down"]

    return _chain(
        s, mid, s.a, ws=nn.ParameterList([weight(s.a, s.b), weight(s.b, s.n)]),
        by_name=nn.ParameterDict({"up": weight(s.n, s.b), "down": weight(s.b, s.a)}),
    )  # fmt: skip


@construct("a parameter for each unit, in a list", refused={"enter.weight[0]": "a table that the forward pass makes"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(
        s, lambda m, h: torch.tanh(h * torch.stack(list(m.gains))), s.a,
        gains=nn.ParameterList(nn.Parameter(torch.tensor(0.5 + i)) for i in range(s.a)),
    )  # fmt: skip


@construct("a tensor kept as a plain attribute", refused={"enter.weight[0]": "no parameter or buffer has it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = _chain(s, lambda m, h: torch.tanh(h * m.plain), s.a)
    vars(model)["plain"] = s.data(s.a)
    return model, x


@construct("tensors kept in a list", "mid.weight[0]", refused={"enter.weight[0]": "no parameter or buffer has it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = _chain(s, lambda m, h: torch.tanh(m.mid(h * m.kept[0])), s.b, mid=nn.Linear(s.a, s.b))
    model.kept = [s.data(s.a)]
    return model, x


@construct("a cache filled by the first run", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        if m.cache is None:
            m.cache = torch.linspace(0, 1, h.shape[1], dtype=h.dtype)[:, None]
        return torch.tanh(h * m.cache)

    return _chain(s, mid, s.a, cache=None)


@construct(
    "a cache of the width, filled by the first run", refused={"enter.weight[0]": "a table that the forward pass makes"}
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        if m.cache is None:
            m.cache = torch.linspace(0, 1, h.shape[2], dtype=h.dtype)
        return torch.tanh(h * m.cache)

    return _chain(s, mid, s.a, cache=None)


@construct("a running mean kept by hand", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        if m.training:
            m.mean.mul_(0.9).add_(0.1 * h.detach().mean((0, 1)))
        return torch.tanh(h - m.mean)

    return _chain(s, mid, s.a, mean=torch.zeros(s.a))


class Pair(NamedTuple):
    """Two tensors."""

    hidden: Tensor
    out: Tensor


@dataclass
class Output:
    """Tensors in fields, one of them not given."""

    out: Tensor
    hidden: tuple[Tensor, ...]
    loss: Tensor | None = None


@construct("outputs in a dataclass", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Output:
        h = m.enter(x)
        return Output(m.leave(torch.tanh(m.mid(h))), (h, h + 1))

    return Small(
        run, enter=nn.Linear(s.x, s.a), mid=nn.Linear(s.a, s.b), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("outputs nested in dicts, lists and tuples", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Any]:
    def run(m: Small, batch: dict[str, Any]) -> dict[str, Any]:
        h = m.enter(batch["x"])
        return {"all": [Pair(h, m.leave(torch.tanh(m.mid(h))))], "n": batch["n"], "none": None}

    model = Small(run, enter=nn.Linear(s.x, s.a), mid=nn.Linear(s.a, s.b), leave=nn.Linear(s.b, s.o))
    return model, ({"x": s.sequence(), "n": 3},)


@construct("a loss as the output", "enter.weight[0]", refused={"leave.weight[0]": "no op that growkit knows"})
def _(s: Sizes) -> tuple[nn.Module, Any]:
    model, x = _chain(s, lambda m, h: torch.tanh(h), s.a)
    run = model.run
    model.run = lambda m, x, labels: F.cross_entropy(run(m, x).flatten(0, 1), labels.flatten())
    return model, (x, s.tokens(s.o))


@construct(
    "an output that is made of a width", refused={"enter.weight[0]": "its size enters the computation as a number"}
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.enter(x))) + float(m.enter(x).shape[-1]),
        enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o),
    ), s.sequence()  # fmt: skip


@construct("axes of size one", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.mid(torch.tanh(m.enter(x))))),
        enter=nn.Linear(s.x, 1), mid=nn.Linear(1, s.b), leave=nn.Linear(s.b, 1),
    ), s.sequence()  # fmt: skip


@construct("an axis as long as the data", "mid.weight[0]", refused={"places.weight[1]": "its size is that of the data"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    """A layer over places, whose number is that of the data, and over features."""
    return Small(
        lambda m, x: m.leave(torch.tanh(m.mid(torch.tanh(m.places(x.transpose(1, 2)).transpose(1, 2))))),
        places=nn.Linear(s.time, s.time), mid=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o),
    ), s.sequence()  # fmt: skip


@construct("features times features over time", "enter.weight[0]", "other.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    """A Gram matrix, flattened."""
    return Small(
        lambda m, x: m.leave(torch.tanh(m.enter(x).transpose(1, 2) @ m.other(x)).flatten(1)),
        enter=nn.Linear(s.x, s.a), other=nn.Linear(s.x, s.b), leave=nn.Linear(s.a * s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("features times themselves over time", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        return m.leave(torch.tanh(h.transpose(1, 2) @ h).flatten(1))

    return Small(run, enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a * s.a, s.o)), s.sequence()


@construct("bfloat16 in the middle", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _chain(
        s, lambda m, h: torch.tanh(F.linear(h.bfloat16(), m.mid.weight.bfloat16()).to(h.dtype)), s.b,
        mid=nn.Linear(s.a, s.b),
    )  # fmt: skip


@construct("autocast in the middle", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.tanh(m.mid(h)).to(h.dtype)

    return _chain(s, mid, s.b, mid=nn.Linear(s.a, s.b))


@construct("a hook that changes the output", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = _chain(s, lambda m, h: torch.tanh(m.mid(h)), s.b, mid=nn.Linear(s.a, s.b))
    model.mid.register_forward_hook(lambda module, inputs, output: output * 2)
    model.mid.register_forward_pre_hook(lambda module, inputs: (torch.relu(inputs[0]),))
    return model, x
