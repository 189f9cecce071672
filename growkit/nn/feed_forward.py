"""The feed-forward branch of a Conformer block."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    """Norm, linear, SiLU, linear: `'batch time model' -> 'batch time model'`.

    Source: Gulati et al. 2020 (arXiv 2005.08100), figure 4.
    """

    growkit_sizes: ClassVar[dict[str, str]] = {"ffn_dim": "linear1.weight[0]"}
    growkit_layouts: ClassVar[dict[str, str]] = {
        "norm.weight": "stream:gain",
        "norm.bias": "stream:bias",
        "linear1.weight": "hidden:produces stream:consumes",
        "linear1.bias": "hidden:produces",
        "linear2.weight": "stream:produces hidden:consumes",
        "linear2.bias": "stream:produces",
    }
    growkit_passages: ClassVar[dict[str, tuple[str, ...]]] = {
        "stream": ("layer_norm norm",),
        "hidden": ("pointwise:silu",),
    }

    def __init__(self, model_dim: int, ffn_dim: int, dropout: float = 0.0):
        super().__init__()
        self.ffn_dim = ffn_dim
        self.norm = nn.LayerNorm(model_dim)
        self.linear1 = nn.Linear(model_dim, ffn_dim)
        self.linear2 = nn.Linear(ffn_dim, model_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Treats each frame on its own. x: 'batch time model'."""
        hidden = self.dropout(F.silu(self.linear1(self.norm(x))))
        return self.dropout(self.linear2(hidden))
