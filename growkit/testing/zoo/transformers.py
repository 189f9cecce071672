"""Transformers out of torch's own layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from growkit.testing.zoo.entry import Entry, Size

Built = tuple[nn.Module, Any]


class CrossAttention(nn.Module):
    """`nn.MultiheadAttention` between projections."""

    def __init__(self, width: int, other: int, features: int, attention: nn.MultiheadAttention, classes: int):
        super().__init__()
        self.enter, self.enter_other = nn.Linear(features, width), nn.Linear(features, other)
        self.attention = attention
        self.leave = nn.Linear(width, classes)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """`'batch time features', 'batch from features' -> 'batch time classes'`"""
        x, memory = self.enter(x), self.enter_other(memory)
        mixed, _ = self.attention(x, memory, memory, need_weights=False)
        return self.leave(x + mixed)


class Tied(nn.Module):
    """Self-attention: query, key and value are one tensor."""

    def __init__(self, width: int, features: int, attention: nn.MultiheadAttention, classes: int):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.attention = attention
        self.leave = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """`'batch time features' -> 'batch time classes'`"""
        x = self.enter(x)
        return self.leave(x + self.attention(x, x, x)[0])


def _two_sequences(size: Size) -> tuple[Tensor, Tensor]:
    return torch.randn(size(2), size(4), size(3)), torch.randn(size(2), size(5), size(3))


def self_attention(size: Size) -> Built:
    """Packed projections of one tensor, with attention weights."""
    heads, head_dim = (2, 2) if size(1) == 4 else (2, 3)
    width = heads * head_dim
    attention = nn.MultiheadAttention(width, heads, batch_first=True)
    return Tied(width, size(3), attention, size(7)), torch.randn(size(2), size(4), size(3))


def cross_attention(size: Size) -> Built:
    """Packed projections of two tensors."""
    width = 4 if size(1) == 4 else 6
    attention = nn.MultiheadAttention(width, 2, batch_first=True)
    return CrossAttention(width, width, size(3), attention, size(7)), _two_sequences(size)


def separate_widths(size: Size) -> Built:
    """Keys and values of a width of their own."""
    width = 4 if size(1) == 4 else 6
    attention = nn.MultiheadAttention(width, 2, kdim=size(5), vdim=size(5), batch_first=True)
    if size(1) == 4:  # torch packs projections of equal widths
        attention = nn.MultiheadAttention(width, 2, kdim=8, vdim=8, batch_first=True)
    return CrossAttention(width, attention.kdim, size(3), attention, size(7)), _two_sequences(size)


class Encoder(nn.Module):
    """`nn.TransformerEncoder` between an embedding with positions and a classifier."""

    def __init__(self, size: Size, norm_first: bool):
        super().__init__()
        width = 4 if size(1) == 4 else 6
        self.embedding, self.position = nn.Embedding(size(9), width), nn.Parameter(torch.zeros(1, size(5), width))
        layer = nn.TransformerEncoderLayer(width, 2, size(7), 0.1, "gelu", batch_first=True, norm_first=norm_first)
        final = nn.LayerNorm(width) if norm_first else None
        self.encoder = nn.TransformerEncoder(layer, 2, final, enable_nested_tensor=False)
        self.leave = nn.Linear(width, size(3))

    def forward(self, ids: Tensor, padding: Tensor) -> Tensor:
        """`'batch time', 'batch time' -> 'batch classes'`"""
        x = self.embedding(ids) + self.position
        return self.leave(self.encoder(x, src_key_padding_mask=padding).mean(1))


def _padded(size: Size) -> tuple[Tensor, Tensor]:
    ids = torch.randint(0, 4, (size(2), size(5)))
    padding = torch.zeros(size(2), size(5), dtype=torch.bool)
    padding[0, -1] = True
    return ids, padding


def encoder(size: Size) -> Built:
    """Post-norm encoder layers, torch's default."""
    return Encoder(size, norm_first=False), _padded(size)


def pre_norm_encoder(size: Size) -> Built:
    """Pre-norm encoder layers with a final norm."""
    return Encoder(size, norm_first=True), _padded(size)


class EncoderDecoder(nn.Module):
    """`nn.TransformerEncoder` and `nn.TransformerDecoder` with a causal mask."""

    def __init__(self, size: Size):
        super().__init__()
        width = 4 if size(1) == 4 else 6
        self.source, self.target = nn.Linear(size(3), width), nn.Embedding(size(9), width)
        options: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        encoder_layer = nn.TransformerEncoderLayer(width, 2, size(7), **options)
        decoder_layer = nn.TransformerDecoderLayer(width, 2, size(5), **options)
        self.encoder = nn.TransformerEncoder(encoder_layer, 1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder_layer, 2, nn.LayerNorm(width))
        self.leave = nn.Linear(width, size(9))

    def forward(self, source: Tensor, ids: Tensor) -> Tensor:
        """`'batch from features', 'batch time' -> 'batch time entries'`"""
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=source.dtype)
        memory = self.encoder(self.source(source))
        return self.leave(self.decoder(self.target(ids), memory, tgt_mask=mask, tgt_is_causal=True))


def encoder_decoder(size: Size) -> Built:
    """An encoder, and a causal decoder that reads it."""
    inputs = torch.randn(size(2), size(5), size(3)), torch.randint(0, 4, (size(2), size(4)))
    return EncoderDecoder(size), inputs


class Translator(nn.Module):
    """`nn.Transformer` between two embeddings and a head."""

    def __init__(self, size: Size):
        super().__init__()
        width = 4 if size(1) == 4 else 6
        self.source, self.target = nn.Embedding(size(7), width), nn.Embedding(size(9), width)
        self.transformer = nn.Transformer(width, 2, 1, 1, size(5), dropout=0.0, batch_first=True)
        self.leave = nn.Linear(width, size(9))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """`'batch from', 'batch time' -> 'batch time entries'`"""
        return self.leave(self.transformer(self.source(source), self.target(target)))


def whole_transformer(size: Size) -> Built:
    """`nn.Transformer`, post-norm."""
    return Translator(size), (torch.randint(0, 4, (size(2), size(5))), torch.randint(0, 4, (size(2), size(4))))


ENTRIES = (
    Entry("MultiheadAttention, one tensor", self_attention),
    Entry("MultiheadAttention, two tensors", cross_attention),
    Entry("MultiheadAttention, kdim and vdim", separate_widths),
    Entry("TransformerEncoder", encoder),
    Entry("TransformerEncoder, pre-norm", pre_norm_encoder),
    Entry("encoder and decoder", encoder_decoder),
    Entry("Transformer", whole_transformer),
)
