"""Networks of blocks that people combine: gates, adapters, mixers, weights that are computed, our own Conformer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from growkit.nn import ConformerEncoder
from growkit.testing.zoo.entry import Entry, Size, either

Built = tuple[nn.Module, Any]


class Bottleneck(nn.Module):
    """A pointwise, a grouped and a pointwise convolution beside a shortcut."""

    def __init__(self, entering: int, inside: int, leaving: int, stride: int, groups: int):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(entering, inside, 1, bias=False), nn.BatchNorm2d(inside)
        self.conv2 = nn.Conv2d(inside, inside, 3, stride, 1, groups=groups, bias=False)
        self.norm2 = nn.BatchNorm2d(inside)
        self.conv3, self.norm3 = nn.Conv2d(inside, leaving, 1, bias=False), nn.BatchNorm2d(leaving)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch entering height width' -> 'batch leaving height width'`"""
        inner = F.relu(self.norm1(self.conv1(x)))
        inner = F.relu(self.norm2(self.conv2(inner)))
        return F.relu(self.norm3(self.conv3(inner)) + self.shortcut(x))


def bottlenecks(size: Size) -> Built:
    """Residual blocks with plain, depthwise and grouped convolutions."""
    a, b = size(6), size(9)
    model = nn.Sequential(
        nn.Conv2d(size(3), a, 3, padding=1),
        nn.BatchNorm2d(a),
        nn.ReLU(),
        Bottleneck(a, size(5), a, 1, 1),
        Bottleneck(a, size(10), a, 1, size(10)),
        Bottleneck(a, either(size, 14, 4), b, 2, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(b, size(7)),
    )
    return model, torch.randn(size(2), size(3), 6, 8)


class NormedUNet(nn.Module):
    """Down twice and up once learned, once by copies, with group norms; what was before is put beside."""

    def __init__(self, size: Size):
        super().__init__()
        a, b, c, d = either(size, 6, 4), either(size, 10, 4), either(size, 14, 4), size(5)
        self.down1, self.down2, self.bottom = self._stage(size(3), a), self._stage(a, b), self._stage(b, c)
        self.up = nn.ConvTranspose2d(c, d, 2, 2)
        self.merge2, self.merge1 = self._stage(d + b, b), self._stage(b + a, a)
        self.leave = nn.Conv2d(a, size(2), 1)

    def _stage(self, entering: int, leaving: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(entering, leaving, 3, padding=1), nn.GroupNorm(2, leaving), nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        """`'batch channels height width' -> 'batch classes height width'`"""
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.up(self.bottom(F.max_pool2d(second, 2)))
        x = self.merge2(torch.cat([x, second], 1))
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.leave(self.merge1(torch.cat([x, first], 1)))


def normed_u_net(size: Size) -> Built:
    """A U-Net with group norms."""
    return NormedUNet(size), torch.randn(size(2), size(3), 8, 12)


class InvertedResidual(nn.Module):
    """A wide depthwise convolution whose channels are weighed by their means over space (squeeze and excite)."""

    def __init__(self, width: int, inside: int, squeezed: int):
        super().__init__()
        self.expand, self.norm1 = nn.Conv2d(width, inside, 1, bias=False), nn.BatchNorm2d(inside)
        self.mix = nn.Conv2d(inside, inside, 3, padding=1, groups=inside, bias=False)
        self.norm2 = nn.BatchNorm2d(inside)
        self.squeeze, self.excite = nn.Linear(inside, squeezed), nn.Linear(squeezed, inside)
        self.project, self.norm3 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """`'batch width height width' -> 'batch width height width'`"""
        inner = F.silu(self.norm2(self.mix(F.silu(self.norm1(self.expand(x))))))
        weight = self.excite(F.silu(self.squeeze(inner.mean((-2, -1))))).sigmoid()
        return x + self.norm3(self.project(inner * weight[:, :, None, None]))


def squeeze_and_excite(size: Size) -> Built:
    """Inverted residual blocks with squeeze and excite."""
    width = size(5)
    model = nn.Sequential(
        nn.Conv2d(size(3), width, 3, 2, 1),
        InvertedResidual(width, size(7), size(2)),
        InvertedResidual(width, size(6), size(3)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, size(8)),
    )
    return model, torch.randn(size(2), size(3), 6, 8)


class ConvNeXtBlock(nn.Module):
    """A depthwise convolution, a norm and a feed-forward layer over channels, scaled, beside the stream."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.mix = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch width height width' -> 'batch width height width'`"""
        inner = self.norm(self.mix(x).permute(0, 2, 3, 1))
        inner = self.scale * self.down(F.gelu(self.up(inner)))
        return x + inner.permute(0, 3, 1, 2)


def layer_scale(size: Size) -> Built:
    """ConvNeXt blocks with layer scale."""
    width = size(6)
    model = nn.Sequential(
        nn.Conv2d(size(3), width, 2, 2),
        ConvNeXtBlock(width, size(7)),
        ConvNeXtBlock(width, size(9)),
        nn.Conv2d(width, size(5), 1),
    )
    return model, torch.randn(size(2), size(3), 6, 8)


class MixerBlock(nn.Module):
    """A feed-forward layer over patches, one over channels, each beside the stream."""

    def __init__(self, patches: int, width: int, over_patches: int, over_channels: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.patches = nn.Sequential(nn.Linear(patches, over_patches), nn.GELU(), nn.Linear(over_patches, patches))
        self.channels = nn.Sequential(nn.Linear(width, over_channels), nn.GELU(), nn.Linear(over_channels, width))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch patches width' -> 'batch patches width'`"""
        x = x + self.patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """MLP-Mixer with a classifier."""

    def __init__(self, size: Size):
        super().__init__()
        width, patches = size(5), either(size, 6, 4)
        self.patch = nn.Conv2d(size(3), width, 2, 2)
        self.blocks = nn.ModuleList(MixerBlock(patches, width, size(7), size(8)) for _ in range(2))
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, size(9))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch channels height width' -> 'batch classes'`"""
        x = self.patch(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.leave(self.norm(x).mean(1))


def mixer(size: Size) -> Built:
    """MLP-Mixer."""
    return Mixer(size), torch.randn(size(2), size(3), 4, either(size, 6, 4))


class Adapted(nn.Module):
    """A linear layer plus a product of two thin matrices."""

    def __init__(self, entering: int, leaving: int, rank: int):
        super().__init__()
        self.linear = nn.Linear(entering, leaving)
        self.a, self.b = nn.Parameter(torch.zeros(rank, entering)), nn.Parameter(torch.zeros(leaving, rank))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch entering' -> 'batch leaving'`"""
        return self.linear(x) + F.linear(x, self.b @ self.a)


def adapters(size: Size) -> Built:
    """A multi-layer perceptron with low-rank adapters."""
    model = nn.Sequential(
        Adapted(size(5), size(7), size(2)),
        nn.ReLU(),
        Adapted(size(7), size(6), size(3)),
        nn.ReLU(),
        nn.Linear(size(6), size(4)),
    )
    return model, torch.randn(size(3), size(5))


def weight_norms(size: Size) -> Built:
    """Convolutions whose weights have a norm and a direction, one in groups."""
    groups, inside = 2, either(size, 3, 2)
    model = nn.Sequential(
        weight_norm(nn.Conv1d(size(3), groups * inside, 3)),
        nn.ReLU(),
        weight_norm(nn.Conv1d(groups * inside, groups * either(size, 5, 2), 3, groups=groups)),
        nn.GELU(),
        weight_norm(nn.Conv1d(groups * either(size, 5, 2), size(7), 1)),
        nn.GELU(),
        nn.Conv1d(size(7), size(2), 1),
    )
    return model, torch.randn(size(2), size(3), 11)


class EinsumAttention(nn.Module):
    """Attention and a gated layer out of `einsum`, with parameters of three dimensions."""

    def __init__(self, size: Size):
        super().__init__()
        width, heads, head_dim, hidden = size(6), size(3), size(5), size(7)
        self.enter = nn.Linear(size(2), width)
        self.query, self.key, self.value = (nn.Parameter(torch.randn(width, heads, head_dim)) for _ in range(3))
        self.out = nn.Parameter(torch.randn(heads, head_dim, width))
        self.temperature = head_dim**-0.5
        self.norm = nn.LayerNorm(width)
        self.gate, self.down = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)
        self.leave = nn.Linear(width, size(8))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch time features' -> 'batch time classes'`"""
        x = self.enter(x)
        query, key, value = (torch.einsum("btc,chd->bhtd", x, w) for w in (self.query, self.key, self.value))
        weight = torch.einsum("bhtd,bhsd->bhts", query, key).mul(self.temperature).softmax(-1)
        x = self.norm(x + torch.einsum("bhts,bhsd,hdc->btc", weight, value, self.out))
        return self.leave(x + self.down(F.glu(self.gate(x), -1)))


def einsum_attention(size: Size) -> Built:
    """Attention by einsum."""
    return EinsumAttention(size), torch.randn(size(2), size(4), size(2))


class WeighingAttention(nn.Module):
    """`nn.MultiheadAttention` with keys and values of widths of their own, time first, that gives its weights too."""

    def __init__(self, size: Size):
        super().__init__()
        width = either(size, 6, 4)
        vdim = either(size, 7, 8)  # torch packs projections of equal widths
        self.enter, self.keys, self.values = (nn.Linear(size(3), n) for n in (width, size(5), vdim))
        self.attention = nn.MultiheadAttention(width, 2, kdim=size(5), vdim=vdim)
        self.leave = nn.Linear(width, size(8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`'time batch features' -> 'time batch classes', 'batch time time'`"""
        mixed, weight = self.attention(self.enter(x), self.keys(x), self.values(x))
        return self.leave(mixed), weight


def weighing_attention(size: Size) -> Built:
    """Attention that gives its weights."""
    return WeighingAttention(size), torch.randn(size(5), size(2), size(3))


def our_conformer(size: Size) -> Built:
    """Our own Conformer encoder."""
    model = ConformerEncoder(
        size(5), either(size, 6, 4), size(7), 2, 2, 3, conv_channels=size(9), position_dim=either(size, 8, 4)
    )
    lengths = torch.full((size(2),), size(4))
    lengths[0] -= 1
    return model, (torch.randn(size(2), size(4), size(5)), lengths)


ENTRIES = (
    Entry("bottleneck convolutions", bottlenecks),
    Entry("U-Net, group norms", normed_u_net),
    Entry("squeeze and excite", squeeze_and_excite),
    Entry("ConvNeXt blocks", layer_scale),
    Entry("MLP-Mixer", mixer, unwanted=("blocks.*.patches.*.weight[[]0].[01]",)),
    Entry("low-rank adapters", adapters),
    Entry("weight-normed convolutions", weight_norms),
    Entry("attention by einsum", einsum_attention),
    Entry("MultiheadAttention, weights", weighing_attention),
    Entry("growkit Conformer", our_conformer, unwanted=("*.position.weight[[]1]",)),
)
