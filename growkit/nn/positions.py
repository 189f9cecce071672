"""Sinusoids of relative positions."""

from __future__ import annotations

from math import pi
from typing import ClassVar

import torch
from torch import Tensor, nn


class RelativePositions(nn.Module):
    """Table of sinusoids for the offsets `time - 1, ..., -(time - 1)`: `'offset position'`.

    Column 2i is sin(offset / 10000^(2i / dim)), column 2i + 1 the cosine. `dim` is a size of its own: the
    frequencies are a function of it, so that a table that followed the model's width would change its meaning.

    Source: Dai et al. 2019 (arXiv 1901.02860), section 3.3, with the sinusoids of Vaswani et al. 2017.
    """

    growkit_passages: ClassVar[dict[str, tuple[str, ...]]] = {"position": ("size_as_number",)}

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """The table for the frames of `x: 'batch time model'`, in its type and on its device."""
        time = x.size(1)
        # In float64: in half precision the large offsets are no whole numbers any more.
        offset = torch.arange(time - 1, -time, -1, device=x.device, dtype=torch.float64)
        column = torch.arange(self.dim, device=x.device, dtype=torch.float64)
        odd = column % 2
        frequency = 10000.0 ** ((odd - column) / self.dim)
        return torch.sin(offset.unsqueeze(1) * frequency + odd * (pi / 2)).to(x.dtype)
