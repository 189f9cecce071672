"""Small causal language models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.testing.zoo.entry import Entry, Size

Built = tuple[nn.Module, Any]


class CausalAttention(nn.Module):
    """Self-attention to earlier places, by torch's kernel or written out."""

    mask: Tensor

    def __init__(self, width: int, heads: int, head_dim: int, longest: int, kernel: bool):
        super().__init__()
        self.heads, self.head_dim, self.kernel = heads, head_dim, kernel
        self.qkv = nn.Linear(width, 3 * heads * head_dim, bias=False)
        self.out = nn.Linear(heads * head_dim, width)
        if not kernel:
            self.register_buffer("mask", torch.ones(longest, longest, dtype=torch.bool).tril())

    def forward(self, x: Tensor) -> Tensor:
        """`'batch time width' -> 'batch time width'`"""
        batch, time, _ = x.shape
        parts = self.qkv(x).split(self.heads * self.head_dim, -1)
        query, key, value = (part.view(batch, time, self.heads, self.head_dim).transpose(1, 2) for part in parts)
        if self.kernel:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-1, -2) * self.head_dim**-0.5
            mixed = scores.masked_fill(~self.mask[:time, :time], float("-inf")).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, time, self.heads * self.head_dim))


class DecoderBlock(nn.Module):
    """Pre-norm attention and feed-forward layer, each beside the stream."""

    def __init__(self, attention: CausalAttention, width: int, hidden: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = attention
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """`'batch time width' -> 'batch time width'`"""
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """A causal language model: embedding, positions, blocks, a final norm if there is one, a head."""

    def __init__(self, size: Size, tied: bool, kernel: bool = True, norm: nn.Module | None = None):
        super().__init__()
        width, entries, longest = size(6), size(9), size(7) + 1
        self.tokens, self.positions = nn.Embedding(entries, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(
            DecoderBlock(CausalAttention(width, size(2), size(3), longest, kernel), width, size(7)) for _ in range(2)
        )
        self.norm = nn.LayerNorm(width) if norm is None else norm
        self.head = nn.Linear(width, entries, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """`'batch time' -> 'batch time entries'`"""
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class TiedRnn(nn.Module):
    """A recurrent language model whose head is its embedding, with a norm before it."""

    def __init__(self, size: Size):
        super().__init__()
        width = size(5)
        self.tokens = nn.Embedding(size(9), width)
        self.layer = nn.LSTM(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        """`'batch time' -> 'batch time entries'`"""
        return F.linear(self.norm(self.layer(self.tokens(ids))[0]), self.tokens.weight)


class ProjectedTiedRnn(nn.Module):
    """A recurrent language model whose head is its embedding, with a projection to its width before it."""

    def __init__(self, size: Size):
        super().__init__()
        self.tokens = nn.Embedding(size(9), size(5))
        self.layer = nn.LSTM(size(5), size(7), batch_first=True)
        self.projection = nn.Linear(size(7), size(5))

    def forward(self, ids: Tensor) -> Tensor:
        """`'batch time' -> 'batch time entries'`"""
        return F.linear(self.projection(self.layer(self.tokens(ids))[0]), self.tokens.weight)


def _ids(size: Size) -> Tensor:
    return torch.randint(0, 4, (size(2), size(5)))


def decoder(size: Size) -> Built:
    """A head of its own, attention by torch's kernel."""
    return Decoder(size, tied=False), _ids(size)


def written_out(size: Size) -> Built:
    """A head of its own, attention written out with a mask in a buffer."""
    return Decoder(size, tied=False, kernel=False), _ids(size)


def tied(size: Size) -> Built:
    """The head is the embedding, after a layer norm."""
    return Decoder(size, tied=True), _ids(size)


def tied_rms(size: Size) -> Built:
    """The head is the embedding, after an RMS norm, which has a gain only."""
    return Decoder(size, tied=True, norm=nn.RMSNorm(size(6))), _ids(size)


def tied_without_norm(size: Size) -> Built:
    """The head is the embedding, and reads the stream itself: uniform copies cannot be exact."""
    return Decoder(size, tied=True, norm=nn.Identity()), _ids(size)


def tied_rnn(size: Size) -> Built:
    """A recurrent language model with a tied head after a norm."""
    return TiedRnn(size), _ids(size)


def projected_tied_rnn(size: Size) -> Built:
    """A recurrent language model with a tied head after a projection."""
    return ProjectedTiedRnn(size), _ids(size)


ENTRIES = (
    Entry("decoder", decoder),
    Entry("decoder, attention written out", written_out),
    Entry("tied decoder", tied),
    Entry("tied decoder, RMS norm", tied_rms),
    Entry("tied decoder without a final norm", tied_without_norm),
    Entry("tied recurrent language model", tied_rnn),
    Entry("tied recurrent language model with a projection", projected_tied_rnn),
)
