"""One Conformer block."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from growkit.nn.attention import SelfAttention
from growkit.nn.convolution import ConvModule
from growkit.nn.feed_forward import FeedForward


class ConformerBlock(nn.Module):
    """Half a feed-forward, attention, convolution, half a feed-forward, norm: `'batch time model'` to the same.

    `final_norm` belongs to the block: with `nn.Identity` in its place, and branches that give zero, a block is the
    identity.

    Source: Gulati et al. 2020 (arXiv 2005.08100), equation 1.
    """

    growkit_layouts: ClassVar[dict[str, str]] = {"final_norm.weight": "stream:gain", "final_norm.bias": "stream:bias"}
    growkit_passages: ClassVar[dict[str, tuple[str, ...]]] = {"stream": ("residual", "layer_norm final_norm")}

    def __init__(
        self,
        model_dim: int,
        *,
        ffn_dim: int,
        num_heads: int,
        head_dim: int,
        conv_channels: int,
        position_dim: int,
        kernel_size: int,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.feed_forward1 = FeedForward(model_dim, ffn_dim, dropout)
        self.attention = SelfAttention(
            model_dim, num_heads=num_heads, head_dim=head_dim, position_dim=position_dim, dropout=dropout
        )
        self.convolution = ConvModule(model_dim, conv_channels=conv_channels, kernel_size=kernel_size, dropout=dropout)
        self.feed_forward2 = FeedForward(model_dim, ffn_dim, dropout)
        self.final_norm = nn.LayerNorm(model_dim)

    def forward(self, x: Tensor, positions: Tensor, valid: Tensor) -> Tensor:
        """Runs the block. x: 'batch time model'; positions: 'offset position'; valid: 'batch time', bool."""
        x = x + 0.5 * self.feed_forward1(x)
        x = x + self.attention(x, positions, valid)
        x = x + self.convolution(x, valid)
        x = x + 0.5 * self.feed_forward2(x)
        return self.final_norm(x)
