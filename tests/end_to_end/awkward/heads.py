"""Attention by hand and by torch, with tokens, queries and positions that are learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes

HEADS = Family()
construct = HEADS.construct


class Head(nn.Module):
    """One head with layers of its own."""

    def __init__(self, width: int, head_dim: int, value_dim: int):
        super().__init__()
        self.q, self.k = nn.Linear(width, head_dim), nn.Linear(width, head_dim)
        self.v = nn.Linear(width, value_dim)
        self.register_buffer("mask", torch.ones(16, 16).tril())

    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        scores = self.q(x) @ self.k(x).transpose(-2, -1) * self.k(x).shape[-1] ** -0.5
        return scores.masked_fill(self.mask[:t, :t] == 0, float("-inf")).softmax(-1) @ self.v(x)


@construct("a list of heads, causal masks in buffers", "heads.0.v.weight[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.enter(x) + m.out(torch.cat([h(m.enter(x)) for h in m.heads], -1)))),
        enter=nn.Linear(s.x, s.a), heads=nn.ModuleList(Head(s.a, s.n, s.b) for _ in range(2)),
        out=nn.Linear(2 * s.b, s.a), leave=nn.Linear(s.a, s.o),
    ), s.sequence()  # fmt: skip


@construct("pooling by a learned query", "enter.weight[0]", "query[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.tanh(m.enter(x))
        return m.leave((h * (m.key(h) @ m.query).softmax(1)[..., None]).sum(1))

    return Small(
        run, enter=nn.Linear(s.x, s.a), key=nn.Linear(s.a, s.b), query=weight(s.b), leave=nn.Linear(s.a, s.o)
    ), s.sequence()  # fmt: skip


@construct("a class token and a mask token", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor, masked: Tensor) -> Tensor:
        h = torch.where(masked[..., None], m.mask, m.enter(x))
        h = torch.cat([m.cls.expand(x.shape[0], -1, -1), h], 1) + m.position[:, : x.shape[1] + 1]
        h = h + m.mid(torch.tanh(h)).mean(1, keepdim=True)
        return m.leave(torch.tanh(h[:, 0]))

    masked = torch.zeros(s.batch, s.time, dtype=torch.bool)
    masked[:, 1] = True
    return Small(
        run, enter=nn.Linear(s.x, s.a), mid=nn.Linear(s.a, s.a), cls=weight(1, 1, s.a), mask=weight(s.a),
        position=weight(1, 11, s.a), leave=nn.Linear(s.a, s.o),
    ), (s.sequence(), masked)  # fmt: skip


@construct("positions put beside the features", "enter.weight[0]", "position[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        place = m.position[: x.shape[1]].expand(x.shape[0], -1, -1)
        return m.leave(torch.tanh(m.mid(torch.cat([m.enter(x), place], -1))))

    return Small(
        run, enter=nn.Linear(s.x, s.a), position=weight(11, s.n), mid=nn.Linear(s.a + s.n, s.b),
        leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct(
    "registers that attend to the input (Perceiver)", "latents[1]", "enter.weight[0]", "attention.q_proj_weight[0].0"
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        latents = m.latents.expand(x.shape[0], -1, -1)
        h = torch.tanh(m.enter(x))
        return m.leave(torch.tanh(latents + m.attention(latents, h, h, need_weights=False)[0]))

    return Small(
        run, enter=nn.Linear(s.x, s.b), latents=weight(5, 2 * s.a),
        attention=nn.MultiheadAttention(2 * s.a, 2, kdim=s.b, vdim=s.b, batch_first=True),
        leave=nn.Linear(2 * s.a, s.o),
    ), s.sequence()  # fmt: skip


@construct("scores by the cosine, with a learned temperature", "a.weight[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.tanh(m.enter(x))
        p, q = F.normalize(m.a(h[:, 0]), dim=-1), F.normalize(m.b(h[:, 1]), dim=-1)
        return m.temperature.exp() * p @ q.t()

    return Small(
        run, enter=nn.Linear(s.x, s.a), a=nn.Linear(s.a, s.b), b=nn.Linear(s.a, s.b),
        temperature=nn.Parameter(torch.tensor(0.3)),
    ), s.sequence()  # fmt: skip


@construct("cosine_similarity", refused={"a.weight[0]": "divided by a norm over it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.scale * F.cosine_similarity(m.a(x)[:, :, None], m.prototypes, dim=-1),
        a=nn.Linear(s.x, s.b), prototypes=weight(s.o, s.b), scale=nn.Parameter(torch.tensor([3.0])),
    ), s.sequence()  # fmt: skip


@construct(
    "linear attention by feature maps", "v.weight[0]", refused={"q.weight[0]": "two activations are contracted over it"}
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k, v = F.elu(m.q(x)) + 1, F.elu(m.k(x)) + 1, m.v(x)
        kv = torch.einsum("btd,bte->bde", k, v)
        z = 1 / (torch.einsum("btd,bd->bt", q, k.sum(1)) + 1e-6)
        return m.leave(torch.tanh(torch.einsum("btd,bde,bt->bte", q, kv, z)))

    return Small(
        run, q=nn.Linear(s.x, s.a), k=nn.Linear(s.x, s.a), v=nn.Linear(s.x, s.b), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("the transformer of torch", "encoder.layers.0.linear1.weight[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    width = 2 * s.a
    net = nn.Transformer(width, 2, 1, 1, s.b, batch_first=True)

    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        return m.leave(m.net(h, h, tgt_mask=m.net.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)))

    model = Small(run, enter=nn.Linear(s.x, width), net=net, leave=nn.Linear(width, s.o))
    model.encoder = net.encoder
    return model, s.sequence()
