"""Attention of every ordinary kind, each as small as its construction allows, with its sizes free."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Sizes = dict[str, int]


class Around(nn.Module):
    """A residual attention between two layers: `'batch time 5' -> 'batch time 4'`."""

    def __init__(self, sizes: Sizes, scale: float | None = 0.4):
        super().__init__()
        self.heads, self.group, self.dim, self.scale = sizes["heads"], sizes["group"], sizes["dim"], scale
        self.enter, self.leave = nn.Linear(5, sizes["width"]), nn.Linear(sizes["width"], 4)
        self.build(sizes["width"])

    def build(self, width: int) -> None:
        """The layers of the attention."""
        inner = self.heads * self.dim
        self.q, self.k, self.v = (nn.Linear(width, inner) for _ in range(3))
        self.out = nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        return self.leave(x + self.out(self.attend(x).transpose(1, 2).flatten(2)))

    def split(self, x: Tensor, heads: int | None = None) -> Tensor:
        return x.unflatten(-1, (self.heads if heads is None else heads, -1)).transpose(1, 2)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        return self.scores(q, k).softmax(-1) @ v

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-1, -2) * 0.4


class MaskInABuffer(Around):
    """Causal, by a square of which the beginning is read."""

    mask: Tensor

    def build(self, width: int) -> None:
        super().build(width)
        self.register_buffer("mask", torch.ones(9, 9, dtype=torch.bool).tril())

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        time = q.shape[2]
        return super().scores(q, k).masked_fill(~self.mask[:time, :time], -torch.inf)


class SoftCapped(Around):
    """Scores between -3 and 3, as in Gemma 2."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.tanh(super().scores(q, k) / 3) * 3


class NormedQueries(Around):
    """A norm over the dims of each query and key, as in Qwen 3."""

    def build(self, width: int) -> None:
        super().build(width)
        self.q_norm, self.k_norm = nn.RMSNorm(self.dim, eps=1e-6), nn.RMSNorm(self.dim, eps=1e-6)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        return F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, scale=self.scale)


class BucketBias(Around):
    """A learned bias of each head for each bucket of distances, as in T5."""

    def build(self, width: int) -> None:
        super().build(width)
        self.bias = nn.Embedding(5, self.heads)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        times = torch.arange(q.shape[2])
        buckets = (times[None] - times[:, None]).clamp(-2, 2) + 2
        return super().scores(q, k) + self.bias(buckets).permute(2, 0, 1)[None]


class DistanceKeys(Around):
    """Queries meet an embedding of each distance (Shaw et al. 2018), as in Wav2Vec2-BERT."""

    def build(self, width: int) -> None:
        super().build(width)
        self.distance = nn.Embedding(5, self.dim)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        times = torch.arange(q.shape[2])
        distances = self.distance((times[None] - times[:, None]).clamp(-2, 2) + 2)
        return super().scores(q, k) + torch.einsum("bhld,lrd->bhlr", q, distances)


class RelativeShift(Around):
    """Positions of their own projection, shifted (Dai et al. 2019), as in Wav2Vec2-Conformer and Parakeet."""

    positions: Tensor

    def build(self, width: int) -> None:
        super().build(width)
        self.position = nn.Linear(6, self.heads * self.dim, bias=False)
        self.u, self.w = (nn.Parameter(torch.randn(self.heads, self.dim)) for _ in range(2))
        self.register_buffer("positions", torch.randn(13, 6))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x)
        q = q.transpose(1, 2)
        p = self.position(self.positions).view(-1, self.heads, self.dim).permute(1, 2, 0)
        content = (q + self.u).transpose(1, 2) @ k.transpose(-1, -2)
        places = self.shifted((q + self.w).transpose(1, 2) @ p)
        return ((content + places) * 0.4).softmax(-1) @ v

    def shifted(self, x: Tensor) -> Tensor:
        batch, heads, to, distances = x.shape
        x = torch.cat([x.new_zeros(batch, heads, to, 1), x], -1).view(batch, heads, distances + 1, to)
        return x[:, :, 1:].reshape(batch, heads, to, distances)[..., : distances // 2 + 1]


class Blocks(Around):
    """timm: one projection, viewed as three blocks that are then taken apart."""

    def build(self, width: int) -> None:
        self.qkv = nn.Linear(width, 3 * self.heads * self.dim)
        self.out = nn.Linear(self.heads * self.dim, width)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, self.heads, self.dim).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v)


class OneKeyHead(Around):
    """Falcon: one key and one value head behind the query heads of one projection."""

    def build(self, width: int) -> None:
        self.qkv = nn.Linear(width, (self.heads + 2) * self.dim)
        self.out = nn.Linear(self.heads * self.dim, width)

    def attend(self, x: Tensor) -> Tensor:
        x = self.qkv(x).view(*x.shape[:2], self.heads + 2, self.dim)
        q, k, v = (y.transpose(1, 2) for y in (x[..., :-2, :], x[..., [-2], :], x[..., [-1], :]))
        return F.scaled_dot_product_attention(q, k, v, scale=self.scale)


class KeyHeadInEachGroup(Around):
    """Falcon 40B: the query heads of a group, their key head, their value head, group by group."""

    def build(self, width: int) -> None:
        self.kv_heads, self.all_heads = self.heads, self.heads * self.group
        self.qkv = nn.Linear(width, self.heads * (self.group + 2) * self.dim)
        self.out = nn.Linear(self.all_heads * self.dim, width)

    def attend(self, x: Tensor) -> Tensor:
        batch, time, _ = x.shape
        x = self.qkv(x).view(batch, time, -1, self.all_heads // self.kv_heads + 2, self.dim)
        q, k, v = x[:, :, :, :-2], x[:, :, :, [-2]], x[:, :, :, [-1]]
        q, k, v = (y.flatten(2, 3) for y in (q, torch.broadcast_to(k, q.shape), torch.broadcast_to(v, q.shape)))
        q, k, v = (y.transpose(1, 2).reshape(batch, self.all_heads, time, self.dim) for y in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, scale=self.scale)


class Interleaved(Around):
    """GPT-NeoX: query, key and value of each head beside each other, a part of their dims turned by positions."""

    frequencies: Tensor

    def build(self, width: int) -> None:
        self.turned = 2 * (self.dim // 3)
        self.qkv = nn.Linear(width, self.heads * 3 * self.dim)
        self.out = nn.Linear(self.heads * self.dim, width)
        self.register_buffer("frequencies", 0.5 ** torch.arange(self.turned // 2))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], -1, 3 * self.dim).transpose(1, 2).chunk(3, -1)
        return F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, scale=self.scale)

    def turn(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[-2])[:, None] * self.frequencies
        angles = torch.cat([angles, angles], -1)
        x, kept = x[..., : self.turned], x[..., self.turned :]
        first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        return torch.cat([x * angles.cos() + torch.cat([-second, first], -1) * angles.sin(), kept], -1)


class Latent(Interleaved):
    """DeepSeek: queries and keys of a part from a small rank, and of a turned part, in keys one for all heads."""

    def build(self, width: int) -> None:
        super().build(width)
        self.kept, rank = self.dim - self.turned, self.dim + 1
        self.qkv = None
        self.q = nn.Linear(width, self.heads * self.dim)
        self.low = nn.Linear(width, rank + self.turned)
        self.norm = nn.RMSNorm(rank, eps=1e-6)
        self.high = nn.Linear(rank, self.heads * (self.kept + self.dim))

    def attend(self, x: Tensor) -> Tensor:
        q = self.split(self.q(x))
        low, k = self.low(x).split([self.norm.normalized_shape[0], self.turned], -1)
        kept, v = self.split(self.high(self.norm(low))).split([self.kept, self.dim], -1)
        k = self.turn(k[:, None]).expand(-1, self.heads, -1, -1)
        q = torch.cat([q[..., : self.kept], self.turn(q[..., self.kept :])], -1)
        return F.scaled_dot_product_attention(q, torch.cat([kept, k], -1), v, scale=self.scale)


class Grouped(Around):
    """Llama: fewer key heads than query heads, in the kernel."""

    def build(self, width: int) -> None:
        self.q = nn.Linear(width, self.heads * self.group * self.dim)
        self.k, self.v = (nn.Linear(width, self.heads * self.dim) for _ in range(2))
        self.out = nn.Linear(self.heads * self.group * self.dim, width)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (self.split(f(x), -1) for f in (self.q, self.k, self.v))
        return F.scaled_dot_product_attention(q, k, v, scale=self.scale, enable_gqa=True, is_causal=True)

    def split(self, x: Tensor, heads: int | None = None) -> Tensor:
        return x.view(*x.shape[:2], -1, self.dim).transpose(1, 2)


class Repeated(Grouped):
    """Llama without the kernel: keys and values are repeated for each query head."""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.split(self.q(x)), self.repeated(self.split(self.k(x))), self.repeated(self.split(self.v(x)))
        return self.scores(q, k).softmax(-1) @ v

    def repeated(self, x: Tensor) -> Tensor:
        batch, heads, time, dim = x.shape
        if self.group == 1:
            return x
        return x[:, :, None].expand(batch, heads, self.group, time, dim).reshape(batch, heads * self.group, time, dim)


class OneProjection(nn.Module):
    """Phi 3: query, key and value heads in one projection, cut by numbers; one is in a config of all layers."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        width, dim = sizes["width"], sizes["dim"]
        self.config = SimpleNamespace(query_heads=sizes["heads"] * sizes["group"])
        self.layers = nn.ModuleList()
        for _ in range(2):
            layer = nn.Module()
            layer.config, layer.key_heads, layer.dim = self.config, sizes["heads"], dim
            layer.qkv = nn.Linear(width, (self.config.query_heads + 2 * sizes["heads"]) * dim)
            layer.out = nn.Linear(self.config.query_heads * dim, width)
            self.layers.append(layer)
        self.enter, self.leave = nn.Linear(5, width), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for layer in self.layers:
            x = x + layer.out(self.attend(layer, layer.qkv(x)).transpose(1, 2).flatten(2))
        return self.leave(x)

    def attend(self, layer: Any, x: Tensor) -> Tensor:
        end = layer.config.query_heads * layer.dim
        parts = (
            x[..., :end],
            x[..., end : end + layer.key_heads * layer.dim],
            x[..., end + layer.key_heads * layer.dim :],
        )
        q, k, v = (part.view(*x.shape[:2], -1, layer.dim).transpose(1, 2) for part in parts)
        return F.scaled_dot_product_attention(q, k, v, scale=0.4, enable_gqa=True)


class Torch(nn.Module):
    """`nn.MultiheadAttention`, on the stream itself or on `sources`, of their own widths."""

    def __init__(self, sizes: Sizes, sources: tuple[int, int] | None = None, weights: bool = False, **options: Any):
        super().__init__()
        width = sizes["heads"] * sizes["dim"]
        self.weights = weights
        self.enter, self.leave = nn.Linear(5, width), nn.Linear(width, 4)
        self.sources = nn.ModuleList(nn.Linear(5, size) for size in sources or ())
        if sources is not None and sources != (width, width):
            options |= {"kdim": sources[0], "vdim": sources[1]}
        self.attention = nn.MultiheadAttention(width, sizes["heads"], batch_first=True, **options)

    def forward(self, given: Tensor) -> Any:
        x = self.enter(given)
        key, value = (source(given) for source in self.sources) if self.sources else (x, x)
        mixed, weights = self.attention(x, key, value)
        return (self.leave(x + mixed), weights) if self.weights else self.leave(x + mixed)
