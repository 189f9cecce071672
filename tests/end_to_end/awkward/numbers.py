"""Sizes written as literals, kept in closures, dicts and caches, and used as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from math import sqrt
from types import SimpleNamespace
from typing import Any

import torch
from einops import einsum, pack, rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes

NUMBERS = Family()
construct = NUMBERS.construct


def _split(s: Sizes, split: Any, **parts: Any) -> tuple[nn.Module, Tensor]:
    """linear, split into heads, mixed over time in each head, linear"""

    def run(m: Small, x: Tensor) -> Tensor:
        y = split(m, torch.tanh(m.enter(x)))
        return m.leave(torch.tanh(y).mean(1).flatten(1))

    return Small(
        run, enter=nn.Linear(s.x, s.n * s.o), leave=nn.Linear(s.n * s.o, s.o), **parts
    ), s.sequence()  # fmt: skip


@construct("heads by a literal", "enter.weight[0].1", refused={"enter.weight[0].0": "is written in the code"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    if s.n == 4:
        return _split(s, lambda m, y: y.view(*y.shape[:2], 4, -1))
    return _split(s, lambda m, y: y.view(*y.shape[:2], 3, -1))


@construct("head width by a literal", "enter.weight[0].0", refused={"enter.weight[0].1": "is written in the code"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    if s.n == 4:
        return _split(s, lambda m, y: y.view(*y.shape[:2], -1, 4))
    return _split(s, lambda m, y: y.view(*y.shape[:2], -1, 2))


@construct("a size in a closure", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    heads, width = s.n, s.o
    return _split(s, lambda m, y: y.reshape(y.shape[0], y.shape[1], heads, width))


@construct("a size bound by partial", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(s, lambda m, y: m.cut(y), cut=partial(rearrange, pattern="b t (h d) -> b t h d", h=s.n))


@construct("sizes in a dict", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(s, lambda m, y: rearrange(y, "b t (h d) -> b t h d", **m.config), config={"h": s.n, "d": s.o})


@construct("sizes in a namespace", "enter.weight[0].0")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(
        s, lambda m, y: y.unflatten(-1, (m.config.heads, -1)), config=SimpleNamespace(heads=s.n, nested={"w": [s.o]})
    )


@dataclass(frozen=True)
class Config:
    """Sizes that cannot be changed."""

    heads: int
    width: int


@construct("sizes in a frozen dataclass", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(
        s, lambda m, y: y.view(*y.shape[:-1], m.config.heads, m.config.width), config=Config(heads=s.n, width=s.o)
    )


@construct("sizes in a list", "enter.weight[0].0")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(s, lambda m, y: y.view(*y.shape[:-1], *m.sizes), sizes=[s.n, s.o])


@construct("a size that a property computes", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.width, self.heads = s.n * s.o, s.n
            self.enter, self.leave = nn.Linear(s.x, self.width), nn.Linear(self.width, s.o)

        @property
        def head_dim(self) -> int:
            return self.width // self.heads

        def forward(self, x: Tensor) -> Tensor:
            y = torch.tanh(self.enter(x)).view(*x.shape[:-1], self.heads, self.head_dim)
            return self.leave(torch.tanh(y).mean(1).flatten(1))

    return Heads().double(), s.sequence()


class Slotted:
    """Sizes without a dict."""

    __slots__ = ("heads",)

    def __init__(self, heads: int):
        self.heads = heads


@construct("a size in a slot", "enter.weight[0].0")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(s, lambda m, y: y.unflatten(-1, (m.sizes.heads, -1)), sizes=Slotted(s.n))


@construct("a size in the class", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    class Heads(nn.Module):
        heads = s.n

        def __init__(self) -> None:
            super().__init__()
            self.enter, self.leave = nn.Linear(s.x, s.n * s.o), nn.Linear(s.n * s.o, s.o)

        def forward(self, x: Tensor) -> Tensor:
            y = torch.tanh(self.enter(x)).unflatten(-1, (self.heads, -1))
            return self.leave(torch.tanh(y).mean(1).flatten(1))

    return Heads().double(), s.sequence()


@construct("a size in a buffer", "enter.weight[0].1", refused={"enter.weight[0].0": "is written in the code"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(s, lambda m, y: y.unflatten(-1, (int(m.heads), -1)), heads=torch.tensor(s.n))


@construct("a size written as text", "enter.weight[0].1", refused={"enter.weight[0].0": "is written in the code"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(s, lambda m, y: y.unflatten(-1, (int(m.heads), -1)), heads=str(s.n))


@construct("a rearranging layer", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _split(s, lambda m, y: m.cut(y), cut=Rearrange("b t (h d) -> b t h d", h=s.n))


@construct(
    "einops of all kinds", "enter.weight[0]", "w[2]", refused={"w[0]": "a factor that no parameter can take over"}
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        y = einsum(torch.tanh(m.enter(x)), m.w, "b t i, h i o -> b h t o")
        y = y + repeat(m.bias, "o -> b h t o", b=y.shape[0], h=y.shape[1], t=y.shape[2])
        y = reduce(torch.tanh(y), "b h t o -> b t o", "sum")
        return m.leave(pack([y, y[:, :1]], "b * o")[0])

    return Small(
        run, enter=nn.Linear(s.x, s.a), w=weight(s.n, s.a, s.b), bias=weight(s.b), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("a temperature from a literal width", "q.weight[0]", "v.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k, v = m.q(x), m.k(x), m.v(x)
        return m.leave((q @ k.transpose(1, 2) / math.sqrt(6)).softmax(-1) @ v)

    return Small(
        run, q=nn.Linear(s.x, s.a), k=nn.Linear(s.x, s.a), v=nn.Linear(s.x, s.b), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("a temperature kept as a float", "q.weight[0]", "v.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k, v = m.q(x), m.k(x), m.v(x)
        return m.leave((q @ k.transpose(1, 2) * m.scale).softmax(-1) @ v)

    return Small(
        run, q=nn.Linear(s.x, s.a), k=nn.Linear(s.x, s.a), v=nn.Linear(s.x, s.b), leave=nn.Linear(s.b, s.o),
        scale=s.a**-0.5,
    ), s.sequence()  # fmt: skip


@lru_cache
def _causal(time: int) -> Tensor:
    return torch.ones(time, time, dtype=torch.bool).tril()


@construct("a mask from a cache of the process", "v.weight[0]", "q.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        scores = (m.q(x) @ m.k(x).transpose(1, 2)).masked_fill(~_causal(x.shape[1]), -1e9)
        return m.leave(scores.softmax(-1) @ m.v(x))

    return Small(
        run, q=nn.Linear(s.x, s.a), k=nn.Linear(s.x, s.a), v=nn.Linear(s.x, s.b), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@lru_cache
def _table(time: int, width: int) -> Tensor:
    angles = torch.arange(time, dtype=torch.float64)[:, None] / 10 ** torch.linspace(0, 2, width, dtype=torch.float64)
    return angles.sin()


@construct(
    "a table of sinusoids from a cache of the process",
    refused={"enter.weight[0]": "a table that the forward pass makes"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.enter(x)
        return m.leave(torch.tanh(x + _table(x.shape[1], x.shape[2])))

    return Small(run, enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o)), s.sequence()


@construct("a table of sinusoids made anew", refused={"enter.weight[0]": "a table that the forward pass makes"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.enter(x)
        place = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * torch.arange(x.shape[2], dtype=x.dtype)
        return m.leave(torch.tanh(x + place.sin()))

    return Small(run, enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o)), s.sequence()


@construct("a stream scaled by the root of its width", "embedding.weight[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.embedding(x) * math.sqrt(m.width) + m.position[: x.shape[1]])),
        embedding=nn.Embedding(9, s.a), position=weight(11, s.a), leave=nn.Linear(s.a, s.o), width=s.a,
    ), s.tokens(9)  # fmt: skip


@construct("scores divided by a root that was imported by its name", "q.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k = m.q(x), m.k(x)
        return m.leave((q @ k.transpose(1, 2) * (1.0 / sqrt(q.shape[-1]))).softmax(-1) @ m.v(x))

    parts = {name: nn.Linear(s.x, s.a) for name in "qkv"}
    return Small(run, **parts, leave=nn.Linear(s.a, s.o)), s.sequence()


@construct("half the units by a computed size", "enter.weight[0].0")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.enter(x)
        half = m.width // 2
        return m.leave(torch.cat([torch.tanh(y[..., :half]), torch.relu(y[..., half:])], -1))

    return Small(run, enter=nn.Linear(s.x, 2 * s.a), leave=nn.Linear(2 * s.a, s.o), width=2 * s.a), s.sequence()


@construct("width by a range", refused={"enter.weight[0]": "picked by their number"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.enter(x)
        return m.leave(torch.stack([torch.tanh(y[..., i]) for i in range(m.width)], -1))

    return Small(run, enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o), width=s.a), s.sequence()


@construct("a dropout rate from the width", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(F.dropout(torch.tanh(m.enter(x)), 1 / m.width, m.training)),
        enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o), width=s.a,
    ), s.sequence()  # fmt: skip


@construct("shapes put together as a list", "enter.weight[0].0")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def split(m: Small, y: Tensor) -> Tensor:
        shape = list(y.shape)
        shape[-1:] = [m.heads, shape[-1] // m.heads]
        return y.reshape(shape)

    return _split(s, split, heads=s.n)


@construct("strides by hand", refused={"enter.weight[0]": "picked by stride"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def split(m: Small, y: Tensor) -> Tensor:
        b, t, c = y.shape
        return y.contiguous().as_strided((b, t, m.heads, c // m.heads), (t * c, c, c // m.heads, 1))

    return _split(s, split, heads=s.n)
