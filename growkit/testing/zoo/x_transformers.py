"""Models of x-transformers."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from growkit.testing.zoo.entry import Entry, Size, either

with warnings.catch_warnings():  # it scripts functions, which torch calls deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import x_transformers

Built = tuple[nn.Module, Any]


def decoder(size: Size) -> Built:
    """A causal language model: rotary positions over a part of each head, gated units, RMS norms."""
    layers = x_transformers.Decoder(
        dim=either(size, 13, 4),
        depth=2,
        heads=either(size, 3, 4),
        attn_dim_head=either(size, 10, 8),
        rotary_pos_emb=True,
        rotary_emb_dim=either(size, 6, 4),
        ff_glu=True,
        ff_mult=2,
        use_rmsnorm=True,
    )
    model = x_transformers.TransformerWrapper(num_tokens=size(37), max_seq_len=23, attn_layers=layers)
    return model, torch.randint(0, 4, (size(2), size(7)))


def encoder(size: Size) -> Built:
    """An encoder of features: positions by linear biases, normalised queries and keys."""
    layers = x_transformers.Encoder(
        dim=size(13),
        depth=2,
        heads=either(size, 3, 4),
        attn_dim_head=size(5),
        alibi_pos_bias=True,
        alibi_num_heads=either(size, 3, 4),
        attn_qk_norm=True,
    )
    model = x_transformers.ContinuousTransformerWrapper(
        dim_in=size(7), dim_out=size(5), max_seq_len=size(23), attn_layers=layers
    )
    return model, torch.randn(size(2), size(9), size(7))


ENTRIES = (Entry("x-transformers decoder", decoder), Entry("x-transformers encoder", encoder))
