"""The Conformer encoder."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from growkit.errors import SettingsError
from growkit.nn.block import ConformerBlock
from growkit.nn.positions import RelativePositions


class ConformerEncoder(nn.Module):
    """A linear projection of the features, then Conformer blocks: `'batch time input' -> 'batch time model'`.

    The names are those of torchaudio. `head_dim` (of queries, keys and values) is `model_dim / num_heads` unless given,
    `conv_channels` and `position_dim` (width of the table of sinusoids) are `model_dim`. Only the start ties them: each
    grows on its own afterwards, in each block.

    Raises:
        SettingsError: a head_dim that is no whole number, an even kernel size.

    Source: Gulati et al. 2020 (arXiv 2005.08100).
    """

    growkit_sizes: ClassVar[dict[str, str]] = {"model_dim": "input_projection.weight[0]"}
    growkit_layouts: ClassVar[dict[str, str]] = {
        "input_projection.weight": "stream:produces input:consumes",
        "input_projection.bias": "stream:produces",
    }
    growkit_passages: ClassVar[dict[str, tuple[str, ...]]] = {"input": ("input",)}

    def __init__(
        self,
        input_dim: int,
        model_dim: int,
        ffn_dim: int,
        num_heads: int,
        num_layers: int,
        kernel_size: int,
        *,
        head_dim: int | None = None,
        conv_channels: int | None = None,
        position_dim: int | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        if head_dim is None and model_dim % num_heads:
            raise SettingsError(
                f"model_dim {model_dim} with num_heads {num_heads}",
                "a model_dim that the heads share evenly, or a head_dim of its own",
                f"pass head_dim={max(1, model_dim // num_heads)}, or a model_dim of {num_heads} times the head_dim",
            )
        self.model_dim = model_dim
        self.input_projection = nn.Linear(input_dim, model_dim)
        self.dropout = nn.Dropout(dropout)
        self.positions = RelativePositions(position_dim or model_dim)
        self.layers = nn.ModuleList(
            ConformerBlock(
                model_dim,
                ffn_dim=ffn_dim,
                num_heads=num_heads,
                head_dim=head_dim or model_dim // num_heads,
                conv_channels=conv_channels or model_dim,
                position_dim=position_dim or model_dim,
                kernel_size=kernel_size,
                dropout=dropout,
            )
            for _ in range(num_layers)
        )

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return len(self.layers)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encodes sequences that are padded at their ends.

        features: 'batch time input'; lengths: 'batch', frames, each from 1 to time.
        Gives 'batch time model' and the lengths. What it gives for the first `lengths` frames of a sequence does not
        depend on the padding; the frames after are without meaning.
        """
        valid = valid_frames(features, lengths)
        x = features.masked_fill(~valid.unsqueeze(-1), 0.0)
        x = self.dropout(self.input_projection(x))
        positions = self.positions(x)
        for layer in self.layers:
            x = layer(x, positions, valid)
        return x, lengths


def valid_frames(x: Tensor, lengths: Tensor) -> Tensor:
    """True at the frames that are no padding: `'batch time'` for `x: 'batch time ...'` and `lengths: 'batch'`."""
    return torch.arange(x.size(1), device=x.device) < lengths.unsqueeze(1)
