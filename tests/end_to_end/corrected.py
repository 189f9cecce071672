"""Small nets in which a growth brings in factors: norms in several writings, attention, embeddings, tied heads."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RmsByHand(nn.Module):
    """As the Llama of transformers writes it: in float32 or more, eps an attribute."""

    def __init__(self, width: int, gain: str = "plain", eps: float = 1e-2):
        super().__init__()
        self.gain, self.eps = gain, eps
        if gain != "none":
            self.weight = nn.Parameter(torch.zeros(width) if gain == "shifted" else torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        if self.gain == "none":
            return y.to(x.dtype)
        if self.gain == "shifted":
            return ((1.0 + self.weight) * y).to(x.dtype)
        return self.weight * y.to(x.dtype)


class UnitLength(nn.Module):
    """As x-transformers writes it: the direction of x, times the square root of the width."""

    def __init__(self, width: int):
        super().__init__()
        self.scale = width**0.5
        self.g = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1) * self.scale * self.g


class EpsInTheCode(nn.Module):
    """An eps that no attribute holds."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-2)


class LayerNormByHand(nn.Module):
    """Mean and variance written out."""

    def __init__(self, width: int):
        super().__init__()
        self.eps = 1e-2
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        return self.weight * (x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)) + self.bias


class _Given(nn.Module):
    """An RMS norm that is given its eps, the gain first."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, eps: float) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


class OneEps(nn.Module):
    """One eps for two norms, and a weight that reads the stream and writes it."""

    def __init__(self, width: int):
        super().__init__()
        self.enter, self.square, self.leave = nn.Linear(5, width), nn.Linear(width, width), nn.Linear(width, 3)
        self.first, self.second, self.eps = _Given(width), _Given(width), 1e-2

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        x = x + self.square(self.first(x, self.eps))
        return self.leave(self.second(x, self.eps))


def norm(kind: str, width: int) -> nn.Module:
    """A norm by the name of its writing."""
    match kind:
        case "rms":
            return nn.RMSNorm(width, eps=1e-2)
        case "rms without gain":
            return nn.RMSNorm(width, eps=1e-2, elementwise_affine=False)
        case "rms by hand":
            return RmsByHand(width)
        case "rms by hand, shifted":
            return RmsByHand(width, "shifted")
        case "rms by hand, without gain":
            return RmsByHand(width, "none")
        case "unit length":
            return UnitLength(width)
        case "eps in the code":
            return EpsInTheCode(width)
        case "layer":
            return nn.LayerNorm(width, eps=1e-2)
        case "layer by hand":
            return LayerNormByHand(width)
    raise ValueError(kind)


RMS = ("rms", "rms without gain", "rms by hand", "rms by hand, shifted", "rms by hand, without gain", "unit length")
LAYER = ("layer", "layer by hand")


class PreNorm(nn.Module):
    """`'batch time input' -> 'batch time output'`: two branches on a stream, each behind a norm, and a last norm."""

    def __init__(self, kind: str, width: int, hidden: int, biases: bool = True):
        super().__init__()
        self.enter = nn.Linear(5, width, bias=biases)
        self.norms = nn.ModuleList([norm(kind, width) for _ in range(2)])
        self.up = nn.ModuleList([nn.Linear(width, hidden, bias=biases) for _ in range(2)])
        self.down = nn.ModuleList([nn.Linear(hidden, width, bias=biases) for _ in range(2)])
        self.last = norm(kind, width)
        self.leave = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for n, up, down in zip(self.norms, self.up, self.down, strict=True):
            x = x + down(F.silu(up(n(x))))
        return self.leave(self.last(x))


class TiedHead(nn.Module):
    """`'batch time' -> 'batch time word'`: one table for reading and writing; `scaled` by the root of the width."""

    def __init__(self, kind: str, width: int, hidden: int, words: int = 11, scaled: bool = False):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.scaled, self.width = scaled, width
        self.norm, self.up, self.down = norm(kind, width), nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.last = norm(kind, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        if self.scaled:
            x = x * self.width**0.5
        x = x + self.down(F.silu(self.up(self.norm(x))))
        return self.head(self.last(x))


class Attention(nn.Module):
    """`'batch time input' -> 'batch time output'`; `kind` says how the scores are made."""

    def __init__(self, kind: str, heads: int = 2, dim: int = 3, groups: int | None = None):
        super().__init__()
        self.kind, self.heads, self.dim, self.groups = kind, heads, dim, groups or heads
        self.scale, self.root = dim**-0.5, math.sqrt(dim)
        if kind == "fused":
            self.qkv = nn.Linear(5, (2 * self.groups + heads) * dim)
        else:
            self.q = nn.Linear(5, heads * dim)
            self.k, self.v = (nn.Linear(5, self.groups * dim) for _ in range(2))
        if kind == "relative":
            self.u, self.w = (nn.Parameter(torch.zeros(heads, dim)) for _ in range(2))
            self.p = nn.Linear(5, heads * dim, bias=False)
        self.out = nn.Linear(heads * dim, 4)

    def split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:-1], heads, self.dim).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "fused":
            width, each = self.heads * self.dim, self.groups * self.dim
            q, k, v = self.qkv(x).split([width, each, each], -1)
        else:
            q, k, v = self.q(x), self.k(x), self.v(x)
        q, k, v = self.split(q, self.heads), self.split(k, self.groups), self.split(v, self.groups)
        if self.groups < self.heads:
            k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        mixed = self.mix(x, q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(*x.shape[:-1], self.heads * self.dim))

    def mix(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.kind == "relative":
            p = self.split(self.p(x), self.heads)
            q = q.transpose(1, 2)
            content = (q + self.u).transpose(1, 2) @ k.transpose(-1, -2)
            place = (q + self.w).transpose(1, 2) @ p.transpose(-1, -2)
            return ((content + place) / math.sqrt(self.dim)).softmax(-1) @ v
        if self.kind == "int":
            return (q @ k.transpose(-1, -2) / math.sqrt(self.dim)).softmax(-1) @ v
        if self.kind == "float":
            return (q @ k.transpose(-1, -2) * self.scale).softmax(-1) @ v
        if self.kind == "root":
            return ((q / self.root) @ k.transpose(-1, -2)).softmax(-1) @ v
        if self.kind == "given":
            return F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return F.scaled_dot_product_attention(q, k, v)


def frames(seed: int = 0) -> Tensor:
    """`'batch time input'`"""
    return torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tokens(seed: int = 0) -> Tensor:
    """`'batch time'`"""
    return torch.randint(0, 11, (2, 6), generator=torch.Generator().manual_seed(seed))


def batch(like: Any, seed: int) -> Tensor:
    """Another batch of the same kind."""
    return tokens(seed) if like.dtype == torch.int64 else frames(seed)
