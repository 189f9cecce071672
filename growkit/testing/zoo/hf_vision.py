"""Image models of transformers, without weights of anyone."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

from growkit.testing.zoo.entry import Entry, Size, either

Built = tuple[nn.Module, Any]


def vit(size: Size) -> Built:
    """ViT with a classifier."""
    config = transformers.ViTConfig(
        hidden_size=either(size, 12, 4),
        num_hidden_layers=2,
        num_attention_heads=either(size, 3, 2),
        intermediate_size=size(20),
        image_size=12,
        patch_size=4,
        num_channels=size(3),
        num_labels=size(5),
    )
    return transformers.ViTForImageClassification(config), torch.randn(size(2), size(3), 12, 12)


def convnext(size: Size) -> Built:
    """ConvNeXt with a classifier: depthwise convolutions, layer norms over channels, layer scale."""
    config = transformers.ConvNextConfig(
        num_channels=size(3),
        patch_size=2,
        num_stages=2,
        hidden_sizes=[size(6), size(10)],
        depths=[1, 2],
        num_labels=size(5),
        layer_scale_init_value=0.5,
        layer_norm_eps=1e-6,
    )
    return transformers.ConvNextForImageClassification(config), torch.randn(size(2), size(3), 16, 12)


def regnet(size: Size) -> Built:
    """RegNet Y with a classifier: residual convolutions in groups, squeeze and excite."""
    config = transformers.RegNetConfig(
        num_channels=size(3),
        embedding_size=8,
        hidden_sizes=[8, 8] if size(1) == 4 else [6, 9],
        depths=[1, 2],
        groups_width=either(size, 3, 4),
        layer_type="y",
        num_labels=size(7),
    )
    return transformers.RegNetForImageClassification(config), torch.randn(size(2), size(3), 20, 16)


ENTRIES = (
    Entry("ViT", vit),
    Entry("ConvNeXt", convnext),
    Entry("RegNet Y", regnet),
)
