"""Models for discovery, with their sizes free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.axes.table import AxisTable
from growkit.nn.classifier import ConformerClassifier
from growkit.nn.encoder import ConformerEncoder

X = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def unknown(x: Tensor) -> Tensor:
    """An op that growkit has no rule for."""
    return x.put(torch.tensor([3]), torch.ones(1, dtype=x.dtype))


class ResidualMlp(nn.Module):
    """Linear, two pre-norm blocks, linear."""

    def __init__(self, width: int, hidden: int, classes: int):
        super().__init__()
        self.enter = nn.Linear(5, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.up = nn.ModuleList([nn.Linear(width, hidden), nn.Linear(width, hidden)])
        self.down = nn.ModuleList([nn.Linear(hidden, width), nn.Linear(hidden, width)])
        self.leave = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for norm, up, down in zip(self.norms, self.up, self.down, strict=True):
            x = x + down(F.gelu(up(norm(x))))
        return self.leave(x)


class Attention(nn.Module):
    """Self-attention with a residual; `style` says how heads are split and scores are made."""

    def __init__(self, style: str, width: int, heads: int, head_dim: int):
        super().__init__()
        self.style, self.heads, self.head_dim = style, heads, head_dim
        self.enter = nn.Linear(5, width)
        self.query, self.key, self.value = (nn.Linear(width, heads * head_dim) for _ in range(3))
        self.out = nn.Linear(heads * head_dim, width)
        self.leave = nn.Linear(width, 4)

    def split(self, x: Tensor) -> Tensor:
        if self.style == "view":
            return x.view(*x.shape[:-1], self.heads, self.head_dim).transpose(1, 2)
        if self.style == "unflatten":
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return rearrange(x, "b t (h d) -> b h t d", h=self.heads)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        if self.style == "unflatten":
            mixed = F.scaled_dot_product_attention(query, key, value, scale=0.3)
        else:
            mixed = (query @ key.transpose(-1, -2) * 0.3).softmax(-1) @ value
        if self.style == "view":
            mixed = mixed.transpose(1, 2).reshape(*x.shape[:-1], self.heads * self.head_dim)
        else:
            mixed = mixed.transpose(1, 2).flatten(-2)
        return self.leave(x + self.out(mixed))


class FusedAttention(nn.Module):
    """One projection for query, key and value, cut by chunk."""

    def __init__(self, width: int, heads: int, head_dim: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(5, 3 * heads * head_dim)
        self.out = nn.Linear(heads * head_dim, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, scale=0.5).transpose(1, 2).flatten(2))


class GatedConvolution(nn.Module):
    """GLU, depthwise convolution, batch norm."""

    def __init__(self, chunk: bool, channels: int):
        super().__init__()
        self.chunk = chunk
        self.up = nn.Linear(5, 2 * channels)
        self.depthwise = nn.Conv1d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.BatchNorm1d(channels)
        self.down = nn.Linear(channels, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        if self.chunk:
            value, gate = x.chunk(2, -1)
            x = value * gate.sigmoid()
        else:
            x = F.glu(x, -1)
        x = F.silu(self.norm(self.depthwise(x.transpose(1, 2))))
        return self.down(x.transpose(1, 2))


class Subsampling(nn.Module):
    """Convolutions over time and frequency, flattened into a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 6, 3, stride=2)
        self.leave = nn.Linear(6 * 2, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x.unsqueeze(1))))
        return self.leave(F.relu(self.second(x)).transpose(1, 2).flatten(2))


def conformer(**sizes: int) -> ConformerClassifier:
    """A Conformer of all-different sizes unless told otherwise."""
    chosen: dict[str, int] = {
        "input_dim": 12, "model_dim": 8, "ffn_dim": 20, "num_heads": 2, "num_layers": 2, "kernel_size": 5,
        "head_dim": 3, "conv_channels": 6, "position_dim": 10,
    } | sizes  # fmt: skip
    return ConformerClassifier(ConformerEncoder(**chosen), 9)


FRAMES = (
    torch.randn(3, 11, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64),
    torch.tensor([11, 7, 4]),
)


class Small(nn.Module):
    """A model of a few named parts, parameters and ints, with a function as its forward pass."""

    def __init__(self, run: Callable[..., Any], **parts: Any):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)
        self.double()

    def forward(self, *inputs: Any) -> Any:
        return self.run(self, *inputs)


def passages(table: AxisTable, name: str) -> set[str]:
    """Kinds of the passages of the axis that a name stands for."""
    (axis,) = table[name]
    return {passage.kind for passage in axis.passages}


def reasons(table: AxisTable, name: str) -> list[str]:
    """Why the axis that a name stands for is locked."""
    (axis,) = table[name]
    return [lock.reason for lock in axis.locks]


def size_matters(table: AxisTable, name: str) -> bool:
    """Whether the size of an axis enters the computation as a number that nothing makes up for."""
    (axis,) = table[name]
    uncorrected = any(correction.target is None for correction in axis.corrections)
    return uncorrected or any(passage.kind == "size_as_number" for passage in axis.passages)


def weight(*shape: int) -> nn.Parameter:
    """A parameter of random values."""
    return nn.Parameter(torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64))
