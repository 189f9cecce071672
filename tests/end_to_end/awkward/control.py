"""Branches, custom functions, compiled and scripted parts, in-place ops, and statistics written out."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes

CONTROL = Family()
construct = CONTROL.construct


def chain(s: Sizes, run: Any, out: int, **parts: Any) -> tuple[nn.Module, Tensor]:
    """linear, something, linear"""
    return Small(
        lambda m, x: m.leave(run(m, m.enter(x))), enter=nn.Linear(s.x, s.a), leave=nn.Linear(out, s.o), **parts
    ), s.sequence()  # fmt: skip


@construct("a branch on the width", refused={"enter.weight[0]": "takes another branch"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(h) if h.shape[-1] >= s.a + 1 else torch.relu(h), s.a)


@construct("a branch on the length of the data", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(h) if h.shape[1] > 3 else torch.relu(h), s.a)


@construct("a branch on whether it is trained", "enter.weight[0]", "noise[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(
        s, lambda m, h: torch.tanh(h * (m.noise + 0.1 * torch.randn_like(h) if m.training else m.noise)), s.a,
        noise=weight(s.a),
    )  # fmt: skip


@construct("a branch on values", refused={"enter.weight[0]": "a factor that no parameter can take over"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(h) if h[0, 0].sum() > 100 else torch.relu(h), s.a)


@construct("where on the sign", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.where(h > 0, h * m.up, h * m.down), s.a, up=weight(s.a), down=weight(s.a))


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
    return chain(s, lambda m, h: Doubled.apply(h), s.a)


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
    return chain(s, lambda m, h: torch.tanh(Product.apply(torch.tanh(h), m.w)), s.b, w=weight(s.b, s.a))


@construct("a function of numpy in the middle", refused={"enter.weight[0]": "its values leave torch"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.from_numpy(h.detach().numpy() * 2.0), s.a)


@construct("checkpointed", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return chain(s, lambda m, h: m.mid(h), s.a, mid=torch.jit.script(Feed(s.a, s.b)))


@construct("a compiled part", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: m.mid(h), s.a, mid=torch.compile(Feed(s.a, s.b), backend="eager"))


@construct("mapped over the batch", "enter.weight[0]", "w[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.vmap(lambda row: torch.tanh(row @ m.w.t()))(h), s.b, w=weight(s.b, s.a))


@construct("a derivative in the forward pass", "enter.weight[0]", refused={"mid.bias[0]": "produces and consumes it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        with torch.enable_grad():
            h = h.detach().requires_grad_()
            return torch.autograd.grad(torch.tanh(m.mid(h)).sum(), h)[0]

    return chain(s, mid, s.a, mid=nn.Linear(s.a, s.b))


@construct("without gradients, and detached", "enter.weight[0]", "teacher.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        with torch.no_grad():
            target = torch.tanh(m.teacher(h))
        return torch.tanh(h.detach() + m.back(target))

    return chain(s, mid, s.a, teacher=nn.Linear(s.a, s.b), back=nn.Linear(s.b, s.a))


@construct("in-place ops of all kinds", refused={"enter.weight[0]": "picked by a mask"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        h = F.relu(h.clone(), inplace=True).mul_(2).add_(m.shift)
        h[:, 0] = m.first
        h[:, 1:] += 1.0
        h[h > 3] = 0.5
        return h.clamp_(max=5).sub_(h.mean(1, keepdim=True))

    return chain(s, mid, s.a, shift=weight(s.a), first=weight(s.a))


@construct("units written into by number", refused={"enter.weight[0]": "picked by their number"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        h = h.clone()
        h[..., 0] = 1.0
        h[..., -1] *= 2.0
        return torch.tanh(h)

    return chain(s, mid, s.a)


@construct("one unit read as a gate", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(h) * torch.sigmoid(h[..., :1]) + h[..., -1:], s.a)


@construct("a sum over units, as a gate for all", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(h) * torch.sigmoid(h.sum(-1, keepdim=True)), s.a)


@construct("a mean over units, taken away", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(h - h.mean(-1, keepdim=True)), s.a)


@construct("the largest unit, taken away", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(h - h.amax(-1, keepdim=True)), s.a)


@construct("a standard deviation with Bessel's correction", refused={"enter.weight[0]": "the number of units less 1"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(m.gain * h / (h.std(-1, keepdim=True) + 1e-6)), s.a, gain=weight(s.a))


@construct("LayerNorm by hand, of a variance by torch", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        variance, mean = torch.var_mean(h, -1, correction=0, keepdim=True)
        h = (h - mean) / torch.sqrt(variance + 1e-6) * m.gain
        return h / (h.std(-1, unbiased=False, keepdim=True) + h.var(-1, correction=0, keepdim=True))

    return chain(s, mid, s.a, gain=weight(s.a))


@construct("RMSNorm by hand", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(
        s, lambda m, h: m.gain * (h.float() * torch.rsqrt(h.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(h),
        s.a, gain=weight(s.a),
    )  # fmt: skip


@construct("normalised to the unit sphere, scaled by the root of the width", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: F.normalize(h, dim=-1) * m.gain * h.shape[-1] ** 0.5, s.a, gain=weight(s.a))


@construct("clipped by its norm", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: h / torch.clamp(h.norm(dim=-1, keepdim=True), min=1.0), s.a)


@construct("gated by a carry (highway)", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        gate = torch.sigmoid(m.gate(h))
        return gate * torch.relu(m.value(h)) + (1 - gate) * h

    return chain(s, mid, s.a, gate=nn.Linear(s.a, s.a), value=nn.Linear(s.a, s.a))


@construct("layer scale and stochastic depth", "enter.weight[0]", "block.up.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        keep = (torch.rand(h.shape[0], 1, 1) > 0.3).to(h) / 0.7 if m.training else 1.0
        return h + keep * m.gamma * m.block(h)

    return chain(s, mid, s.a, block=Feed(s.a, s.b), gamma=weight(s.a))
