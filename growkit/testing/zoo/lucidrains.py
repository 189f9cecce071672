"""The Conformer of the package conformer."""

from __future__ import annotations

from typing import Any

import torch
from conformer import Conformer
from torch import nn

from growkit.testing.zoo.entry import Entry, Size, either

Built = tuple[nn.Module, Any]


def conformer(size: Size) -> Built:
    """The Conformer of the package `conformer`: embedded distances, heads free of the stream."""
    model = Conformer(
        dim=either(size, 12, 4),
        depth=2,
        dim_head=size(5),
        heads=size(3),
        ff_mult=2,
        conv_expansion_factor=2,
        conv_kernel_size=7,
    )
    return model, torch.randn(size(2), size(11), either(size, 12, 4))


ENTRIES = (Entry("conformer", conformer),)
