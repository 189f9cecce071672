"""A classifier of whole sequences."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from growkit.nn.encoder import ConformerEncoder, valid_frames


class ConformerClassifier(nn.Module):
    """An encoder, the mean over the valid frames, and a linear layer: `'batch time input' -> 'batch class'`."""

    growkit_layouts: ClassVar[dict[str, str]] = {
        "output.weight": "output:produces stream:consumes",
        "output.bias": "output:produces",
    }
    growkit_passages: ClassVar[dict[str, tuple[str, ...]]] = {"output": ("output",)}

    def __init__(self, encoder: ConformerEncoder, num_classes: int):
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(encoder.model_dim, num_classes)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Logits of the classes. features: 'batch time input'; lengths: 'batch', frames, each from 1 to time."""
        x, lengths = self.encoder(features, lengths)
        valid = valid_frames(x, lengths)
        total = x.masked_fill(~valid.unsqueeze(-1), 0.0).sum(1)
        return self.output(total / lengths.unsqueeze(1))
