"""What modules keep and give: lists, caches, states, precisions, outputs; sizes of one and of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes
from tests.end_to_end.awkward.control import chain

KEPT = Family()
construct = KEPT.construct


@construct("scaled by scalar parameters", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        return torch.tanh(m.alpha * h + m.beta) * m.gates[0] + h * m.gates.softmax(0)[1]

    return chain(
        s, mid, s.a, alpha=nn.Parameter(torch.tensor(0.5)), beta=nn.Parameter(torch.zeros(1)), gates=weight(2)
    )  # fmt: skip


@construct("one bias for all units, repeated", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(s, lambda m, h: torch.tanh(h + m.bias.repeat_interleave(m.n)), s.a, bias=weight(1), n=s.a)


@construct("frozen parameters", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = chain(s, lambda m, h: torch.tanh(m.mid(h)), s.b, mid=nn.Linear(s.a, s.b))
    for parameter in model.enter.parameters():
        parameter.requires_grad_(False)
    return model, x


@construct("parameters in a list and a dict", "enter.weight[0]", "ws.0[1]", "by_name.up[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        for w in m.ws:
            h = torch.tanh(h @ w)
        return torch.tanh(h @ m.by_name["up"]) @ m.by_name["down"]

    return chain(
        s, mid, s.a, ws=nn.ParameterList([weight(s.a, s.b), weight(s.b, s.n)]),
        by_name=nn.ParameterDict({"up": weight(s.n, s.b), "down": weight(s.b, s.a)}),
    )  # fmt: skip


@construct("a parameter for each unit, in a list", refused={"enter.weight[0]": "a table that the forward pass makes"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return chain(
        s, lambda m, h: torch.tanh(h * torch.stack(list(m.gains))), s.a,
        gains=nn.ParameterList(nn.Parameter(torch.tensor(0.5 + i)) for i in range(s.a)),
    )  # fmt: skip


@construct("a tensor kept as a plain attribute", refused={"enter.weight[0]": "no parameter or buffer has it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = chain(s, lambda m, h: torch.tanh(h * m.plain), s.a)
    vars(model)["plain"] = s.data(s.a)
    return model, x


@construct("tensors kept in a list", "mid.weight[0]", refused={"enter.weight[0]": "no parameter or buffer has it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = chain(s, lambda m, h: torch.tanh(m.mid(h * m.kept[0])), s.b, mid=nn.Linear(s.a, s.b))
    model.kept = [s.data(s.a)]
    return model, x


@construct("a cache filled by the first run", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        if m.cache is None:
            m.cache = torch.linspace(0, 1, h.shape[1], dtype=h.dtype)[:, None]
        return torch.tanh(h * m.cache)

    return chain(s, mid, s.a, cache=None)


@construct(
    "a cache of the width, filled by the first run", refused={"enter.weight[0]": "a table that the forward pass makes"}
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        if m.cache is None:
            m.cache = torch.linspace(0, 1, h.shape[2], dtype=h.dtype)
        return torch.tanh(h * m.cache)

    return chain(s, mid, s.a, cache=None)


@construct("a running mean kept by hand", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        if m.training:
            m.mean.mul_(0.9).add_(0.1 * h.detach().mean((0, 1)))
        return torch.tanh(h - m.mean)

    return chain(s, mid, s.a, mean=torch.zeros(s.a))


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
    model, x = chain(s, lambda m, h: torch.tanh(h), s.a)
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
    return chain(
        s, lambda m, h: torch.tanh(F.linear(h.bfloat16(), m.mid.weight.bfloat16()).to(h.dtype)), s.b,
        mid=nn.Linear(s.a, s.b),
    )  # fmt: skip


@construct("autocast in the middle", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def mid(m: Small, h: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.tanh(m.mid(h)).to(h.dtype)

    return chain(s, mid, s.b, mid=nn.Linear(s.a, s.b))


@construct("a hook that changes the output", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = chain(s, lambda m, h: torch.tanh(m.mid(h)), s.b, mid=nn.Linear(s.a, s.b))
    model.mid.register_forward_hook(lambda module, inputs, output: output * 2)
    model.mid.register_forward_pre_hook(lambda module, inputs: (torch.relu(inputs[0]),))
    return model, x
