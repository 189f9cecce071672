"""A Conformer whose sizes all grow on their own."""

from growkit.nn.attention import SelfAttention
from growkit.nn.block import ConformerBlock
from growkit.nn.classifier import ConformerClassifier
from growkit.nn.convolution import ConvModule
from growkit.nn.declared import declared_layouts, declared_table
from growkit.nn.encoder import ConformerEncoder
from growkit.nn.feed_forward import FeedForward

__all__ = [
    "ConformerBlock",
    "ConformerClassifier",
    "ConformerEncoder",
    "ConvModule",
    "FeedForward",
    "SelfAttention",
    "declared_layouts",
    "declared_table",
]
