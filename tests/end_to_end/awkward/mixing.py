"""Experts, codebooks, graphs, transforms: how activations meet each other apart from attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes

MIXING = Family()
construct = MIXING.construct


@construct(
    "nearest entry of a codebook, straight through",
    "leave.weight[1]",
    refused={"codes[0]": "the number of its smallest unit", "enter.weight[0]": "distances are taken over it"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> tuple[Tensor, Tensor]:
        h = m.enter(x)
        number = torch.cdist(h, m.codes[None]).argmin(-1)
        found = F.embedding(number, m.codes)
        return m.leave(torch.tanh(m.mid(h + (found - h).detach()))), number

    return Small(
        run, enter=nn.Linear(s.x, s.a), codes=weight(9, s.a), mid=nn.Linear(s.a, s.b), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct(
    "nearest entry by a squared distance",
    "leave.weight[1]",
    refused={"codes[0]": "placed by their number", "enter.weight[0]": "reduced by sum before it is used"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        distance = h.pow(2).sum(-1, keepdim=True) - 2 * h @ m.codes.t() + m.codes.pow(2).sum(1)
        chosen = F.one_hot(distance.argmin(-1), m.codes.shape[0]).to(h.dtype)
        return m.leave(torch.tanh(m.mid(chosen @ m.codes)))

    return Small(
        run, enter=nn.Linear(s.x, s.a), codes=weight(9, s.a), mid=nn.Linear(s.a, s.b), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


class Expert(nn.Module):
    """A feed-forward layer."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


def _two_best(s: Sizes, routed: int) -> tuple[nn.Module, Tensor]:
    """The two best of the first `routed` experts."""

    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x).flatten(0, 1)
        best, chosen = m.route(h).softmax(-1).where(m.routed, 0.0).topk(2, -1)
        out = torch.zeros_like(h)
        for number, expert in enumerate(m.experts):
            row, rank = torch.where(chosen == number)
            out[row] += expert(h[row]) * best[row, rank, None]
        return m.leave(torch.tanh(h + out).view(*x.shape[:2], -1))

    return Small(
        run, enter=nn.Linear(s.x, s.a), route=nn.Linear(s.a, s.n), leave=nn.Linear(s.a, s.o),
        experts=nn.ModuleList(Expert(s.a, s.b) for _ in range(s.n)), routed=(torch.arange(s.n) < routed),
    ), s.sequence()  # fmt: skip


@construct(
    "the two best experts, in a loop",
    "experts.0.up.weight[0]",
    "enter.weight[0]",
    refused={"route.weight[0]": "topk compares its units"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _two_best(s, s.n)


@construct(
    "experts, of which the last gets nothing",
    "experts.0.up.weight[0]",
    "enter.weight[0]",
    refused={"route.weight[0]": "topk compares its units"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _two_best(s, s.n - 1)


@construct("all experts, weighed", "experts.0.up.weight[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        gates = m.route(h).softmax(-1)
        return m.leave(torch.tanh(sum(gates[..., i : i + 1] * e(h) for i, e in enumerate(m.experts))))

    return Small(
        run, enter=nn.Linear(s.x, s.a), route=nn.Linear(s.a, s.n), leave=nn.Linear(s.a, s.o),
        experts=nn.ModuleList(Expert(s.a, s.b) for _ in range(s.n)),
    ), s.sequence()  # fmt: skip


@construct(
    "a mixture of softmaxes",
    "enter.weight[0]",
    "latent.weight[0].1",
    refused={"prior.weight[0]": "a softmax runs over it", "leave.weight[0]": "a softmax runs over it"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.tanh(m.enter(x))
        latent = torch.tanh(m.latent(h)).unflatten(-1, (m.parts, -1))
        return ((m.prior(h).softmax(-1)[..., None] * m.leave(latent).softmax(-1)).sum(-2) + 1e-8).log()

    return Small(
        run, enter=nn.Linear(s.x, s.a), prior=nn.Linear(s.a, s.n), latent=nn.Linear(s.a, s.n * s.b),
        leave=nn.Linear(s.b, s.o), parts=s.n,
    ), s.sequence()  # fmt: skip


@construct("a sum over a set", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.relu(m.mid(torch.cat([torch.relu(m.enter(x)).sum(1), m.enter(x).amax(1)], -1)))),
        enter=nn.Linear(s.x, s.a), mid=nn.Linear(2 * s.a, s.b), leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("a graph given by its adjacency", "first.weight[0]", "second.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Any]:
    def run(m: Small, nodes: Tensor, adjacency: Tensor) -> Tensor:
        degree = adjacency.sum(-1).clamp(min=1)
        adjacency = adjacency / degree[:, None].sqrt() / degree[None, :].sqrt()
        return m.leave(adjacency @ torch.relu(m.second(adjacency @ torch.relu(m.first(nodes)))))

    model = Small(run, first=nn.Linear(s.x, s.a), second=nn.Linear(s.a, s.b), leave=nn.Linear(s.b, s.o))
    return model, (s.data(s.time, s.x), (s.data(s.time, s.time) > 0).double())


@construct("messages scattered along edges", "message.weight[0]", "leave.weight[1]")
def _(s: Sizes) -> tuple[nn.Module, Any]:
    def run(m: Small, nodes: Tensor, edges: Tensor) -> Tensor:
        h = torch.relu(m.enter(nodes))
        sent = torch.relu(m.message(torch.cat([h[edges[0]], h[edges[1]]], -1)))
        got = torch.zeros(nodes.shape[0], sent.shape[1], dtype=sent.dtype).index_add_(0, edges[1], sent)
        return m.leave(torch.tanh(m.update(torch.cat([h, got], -1))))

    model = Small(
        run, enter=nn.Linear(s.x, s.a), message=nn.Linear(2 * s.a, s.b), update=nn.Linear(s.a + s.b, s.a),
        leave=nn.Linear(s.a, s.o),
    )  # fmt: skip
    return model, (s.data(s.time, s.x), torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]]))


@construct("attention of a graph", "w.weight[0].1", "w.weight[0].0")
def _(s: Sizes) -> tuple[nn.Module, Any]:
    def run(m: Small, nodes: Tensor, adjacency: Tensor) -> Tensor:
        h = m.w(nodes).view(-1, m.heads, m.dim)
        scores = F.leaky_relu((h * m.source).sum(-1)[:, None] + (h * m.target).sum(-1)[None, :])
        scores = scores.masked_fill(adjacency[..., None] == 0, -1e9).softmax(1)
        return m.leave(F.elu(torch.einsum("ijh,jhd->ihd", scores, h).flatten(1)))

    model = Small(
        run, w=nn.Linear(s.x, s.n * s.b), source=weight(s.n, s.b), target=weight(s.n, s.b),
        leave=nn.Linear(s.n * s.b, s.o), heads=s.n, dim=s.b,
    )  # fmt: skip
    return model, (s.data(s.time, s.x), torch.ones(s.time, s.time).triu().double())


@construct("bilinear layer", "a.weight[0]", "b.weight[0]", "mix.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.mix(torch.tanh(m.a(x)), torch.tanh(m.b(x))))),
        a=nn.Linear(s.x, s.a), b=nn.Linear(s.x, s.b), mix=nn.Bilinear(s.a, s.b, s.n), leave=nn.Linear(s.n, s.o),
    ), s.sequence()  # fmt: skip


@construct("the outer product of two features", "a.weight[0]", "b.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave((torch.tanh(m.a(x))[..., :, None] * torch.tanh(m.b(x))[..., None, :]).flatten(-2)),
        a=nn.Linear(s.x, s.a), b=nn.Linear(s.x, s.b), leave=nn.Linear(s.a * s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("features pooled by maximum over units (maxout)", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(m.enter(x).unflatten(-1, (-1, m.pieces)).amax(-1)),
        enter=nn.Linear(s.x, s.a * s.n), leave=nn.Linear(s.a, s.o), pieces=s.n,
    ), s.sequence()  # fmt: skip


@construct("units sorted or picked by rank", refused={"enter.weight[0]": "compares its units"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.cat([m.enter(x).sort(-1).values, m.enter(x).topk(2, -1).values], -1)),
        enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a + 2, s.o),
    ), s.sequence()  # fmt: skip


@construct("softmax over units", refused={"enter.weight[0]": "a softmax runs over it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(m.enter(x).softmax(-1)), enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o)
    ), s.sequence()  # fmt: skip


@construct("the Fourier transform over units (FNet)", refused={"enter.weight[0]": "a Fourier transform runs over it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.fft.fft(torch.fft.fft(m.enter(x), dim=-1), dim=1).real),
        enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o),
    ), s.sequence()  # fmt: skip


@construct("the Fourier transform over time", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.fft.rfft(m.enter(x), dim=1)
        h = torch.fft.irfft(h * torch.view_as_complex(m.filter)[: h.shape[1], None], n=x.shape[1], dim=1)
        return m.leave(torch.tanh(h))

    return Small(
        run, enter=nn.Linear(s.x, s.a), filter=weight(11, 2), leave=nn.Linear(s.a, s.o)
    ), s.sequence()  # fmt: skip


@construct("complex weights", "enter.weight[0]", "w[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.tanh(m.enter(x)).to(torch.complex128) @ m.w
        return m.leave(h.abs())

    model = Small(run, enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.b, s.o))
    model.w = nn.Parameter(torch.complex(s.data(s.a, s.b), s.data(s.a, s.b, seed=1)))
    return model, s.sequence()
