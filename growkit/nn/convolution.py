"""The convolution branch of a Conformer block."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from growkit.errors import SettingsError


class ConvModule(nn.Module):
    """Norm, pointwise, GLU, depthwise, batch norm, SiLU, pointwise: `'batch time model' -> 'batch time model'`.

    Padded frames are zero before the depthwise convolution, as if the sequence ended there, and are left out of the
    statistics of the batch norm: a frame's output and the running statistics do not depend on the padding.

    Raises:
        SettingsError: an even kernel size.

    Source: Gulati et al. 2020 (arXiv 2005.08100), figure 2.
    """

    growkit_sizes: ClassVar[dict[str, str]] = {"conv_channels": "depthwise.weight[0]"}
    growkit_layouts: ClassVar[dict[str, str]] = {
        "norm.weight": "stream:gain",
        "norm.bias": "stream:bias",
        "pointwise1.weight": "[channels|channels]:produces stream:consumes",
        "pointwise1.bias": "[channels|channels]:produces",
        "depthwise.weight": "channels:gain 1 kernel",
        "depthwise.bias": "channels:produces",
        "batch_norm.weight": "channels:gain",
        "batch_norm.bias": "channels:bias",
        "batch_norm.running_mean": "channels:mean",
        "batch_norm.running_var": "channels:variance",
        "batch_norm.num_batches_tracked": "",
        "pointwise2.weight": "stream:produces channels:consumes",
        "pointwise2.bias": "stream:produces",
    }
    growkit_passages: ClassVar[dict[str, tuple[str, ...]]] = {
        "stream": ("layer_norm norm",),
        "channels": (
            "gate",
            "pointwise:sigmoid",
            "depthwise_conv depthwise",
            "batch_norm batch_norm",
            "pointwise:silu",
        ),
    }

    def __init__(self, model_dim: int, *, conv_channels: int, kernel_size: int, dropout: float = 0.0):
        super().__init__()
        if kernel_size % 2 == 0:
            raise SettingsError(
                f"kernel_size {kernel_size}",
                "an odd number of frames, so that each frame has as many neighbours on both sides",
                f"take {kernel_size - 1} or {kernel_size + 1}",
            )
        self.conv_channels = conv_channels
        self.norm = nn.LayerNorm(model_dim)
        self.pointwise1 = nn.Linear(model_dim, 2 * conv_channels)
        self.depthwise = nn.Conv1d(
            conv_channels, conv_channels, kernel_size, padding=kernel_size // 2, groups=conv_channels
        )
        self.batch_norm = nn.BatchNorm1d(conv_channels)
        self.pointwise2 = nn.Linear(conv_channels, model_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Convolves over time. x: 'batch time model'; valid: 'batch time', bool."""
        x = F.glu(self.pointwise1(self.norm(x)), dim=-1)
        x = x.masked_fill(~valid.unsqueeze(-1), 0.0)
        x = self.depthwise(x.transpose(1, 2))
        x = self._normalise(x, valid).transpose(1, 2)
        return self.dropout(self.pointwise2(F.silu(x)))

    def _normalise(self, x: Tensor, valid: Tensor) -> Tensor:
        """Batch norm of `x: 'batch channels time'`; padded frames neither count nor change."""
        if not self.training:
            return self.batch_norm(x)
        frames = x.transpose(1, 2)
        normed = self.batch_norm(frames[valid])
        return frames.masked_scatter(valid.unsqueeze(-1), normed).transpose(1, 2)
