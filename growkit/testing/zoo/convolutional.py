"""Convolutional networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.testing.zoo.entry import Entry, Size

Built = tuple[nn.Module, Any]


def plain(size: Size) -> Built:
    """Strided convolutions with batch norms, pooled into a classifier."""
    a, b = size(5), size(7)
    model = nn.Sequential(
        nn.Conv2d(size(3), a, 3, padding=1),
        nn.BatchNorm2d(a),
        nn.ReLU(),
        nn.Conv2d(a, b, 3, stride=2, bias=False),
        nn.BatchNorm2d(b),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(b, size(6)),
    )
    return model, torch.randn(size(2), size(3), 8, 9)


def flattened(size: Size) -> Built:
    """Pooling by maximum and average, then channels and space flattened into a linear layer."""
    a, b = size(3), size(5)
    model = nn.Sequential(
        nn.Conv2d(size(2), a, 3, padding=1),
        nn.PReLU(a),
        nn.MaxPool2d(2),
        nn.Conv2d(a, b, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(b * 4 * 4 if size(1) == 4 else b * 2 * 3, size(7)),
        nn.PReLU(),
        nn.Linear(size(7), size(6)),
    )
    shape = (16, 16) if size(1) == 4 else (8, 12)
    return model, torch.randn(size(2), size(2), *shape)


def one_dimensional(size: Size) -> Built:
    """Convolutions over time: dilated, depthwise, pointwise; maximum over time."""
    a, b = size(5), size(6)
    model = nn.Sequential(
        nn.Conv1d(size(3), a, 3, dilation=2),
        nn.InstanceNorm1d(a),
        nn.ReLU(),
        nn.Conv1d(a, a, 3, padding=1, groups=a),
        nn.Conv1d(a, b, 1),
        nn.BatchNorm1d(b),
        nn.MaxPool1d(2),
        nn.AdaptiveMaxPool1d(2),
        nn.Flatten(),
        nn.Linear(2 * b, size(7)),
    )
    return model, torch.randn(size(2), size(3), 13)


def three_dimensional(size: Size) -> Built:
    """Convolutions over volumes, with every kind of pooling."""
    a, b = size(3), size(5)
    model = nn.Sequential(
        nn.Conv3d(size(2), a, 3, padding=1),
        nn.BatchNorm3d(a),
        nn.ReLU(),
        nn.MaxPool3d(2),
        nn.Conv3d(a, b, 1),
        nn.InstanceNorm3d(b, affine=True),
        nn.AvgPool3d(1),
        nn.AdaptiveMaxPool3d(2),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(b, size(4)),
    )
    return model, torch.randn(size(2), size(2), 4, 6, 4)


def depthwise(size: Size) -> Built:
    """Depthwise convolutions, one with several outputs a channel."""
    a, many, b = size(3), size(2), size(5)
    model = nn.Sequential(
        nn.Conv2d(size(2), a, 1),
        nn.Conv2d(a, a, 3, padding=1, groups=a, bias=False),
        nn.ReLU(),
        nn.Conv2d(a, a * many, 3, padding=1, groups=a),
        nn.BatchNorm2d(a * many),
        nn.ReLU(),
        nn.Conv2d(a * many, b, 1),
    )
    return model, torch.randn(size(2), size(2), 5, 6)


def grouped(size: Size) -> Built:
    """A convolution in groups between two pointwise ones."""
    groups, entering, leaving = size(3), size(2), size(5)
    model = nn.Sequential(
        nn.Conv2d(size(6), groups * entering, 1),
        nn.ReLU(),
        nn.Conv2d(groups * entering, groups * leaving, 3, padding=1, groups=groups),
        nn.BatchNorm2d(groups * leaving),
        nn.ReLU(),
        nn.Conv2d(groups * leaving, size(7), 1),
    )
    return model, torch.randn(size(2), size(6), 5, 6)


def transposed(size: Size) -> Built:
    """Transposed convolutions: plain, depthwise, in groups."""
    groups, entering, leaving, a = size(3), size(2), size(5), size(7)
    model = nn.Sequential(
        nn.Conv2d(size(6), groups * entering, 1),
        nn.ConvTranspose2d(groups * entering, groups * leaving, 3, stride=2, groups=groups),
        nn.ReLU(),
        nn.ConvTranspose2d(groups * leaving, a, 3, padding=1, bias=False),
        nn.BatchNorm2d(a),
        nn.ConvTranspose2d(a, a, 3, padding=1, groups=a),
        nn.ReLU(),
        nn.ConvTranspose2d(a, size(4), 2, stride=2),
    )
    return model, torch.randn(size(2), size(6), 3, 4)


def transposed_other_dims(size: Size) -> Built:
    """Transposed convolutions over time, then over volumes."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(size(5), size(3) * 4)
            self.channels = size(3)
            self.over_time = nn.ConvTranspose1d(size(3), size(6), 3, stride=2)
            self.over_volume = nn.ConvTranspose3d(size(6), size(7), 2)
            self.leave = nn.Conv3d(size(7), size(2), 1)

        def forward(self, x: Tensor) -> Tensor:
            x = self.enter(x).view(-1, self.channels, 4)
            x = F.relu(self.over_time(x))
            return self.leave(F.relu(self.over_volume(x[..., None, None])))

    return Model(), torch.randn(size(2), size(5))


def group_norms(size: Size) -> Built:
    """Norms over groups of channels, over single channels, over all channels."""
    groups, inside, a, b = size(3), size(2), size(5), size(7)
    model = nn.Sequential(
        nn.Conv2d(size(2), groups * inside, 3),
        nn.GroupNorm(groups, groups * inside),
        nn.ReLU(),
        nn.Conv2d(groups * inside, a, 1),
        nn.GroupNorm(a, a),
        nn.ReLU(),
        nn.Conv2d(a, b, 1),
        nn.GroupNorm(1, b, affine=False),
        nn.ReLU(),
        nn.Conv2d(b, size(6), 1),
    )
    return model, torch.randn(size(2), size(2), 6, 5)


def instance_norms(size: Size) -> Built:
    """Norms of each channel alone: with parameters, without, with running statistics."""
    a, b, c = size(3), size(5), size(7)
    model = nn.Sequential(
        nn.Conv2d(size(2), a, 3),
        nn.InstanceNorm2d(a, affine=True),
        nn.ReLU(),
        nn.Conv2d(a, b, 1),
        nn.InstanceNorm2d(b),
        nn.ReLU(),
        nn.Conv2d(b, c, 1),
        nn.InstanceNorm2d(c, affine=True, track_running_stats=True),
        nn.BatchNorm2d(c, affine=False),
        nn.Conv2d(c, size(4), 1),
    )
    return model, torch.randn(size(2), size(2), 6, 5)


class ResidualBlock(nn.Module):
    """Two convolutions with batch norms beside a shortcut."""

    def __init__(self, entering: int, inside: int, leaving: int, stride: int):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(entering, inside, 3, stride, 1, bias=False), nn.BatchNorm2d(inside)
        self.conv2, self.norm2 = nn.Conv2d(inside, leaving, 3, padding=1, bias=False), nn.BatchNorm2d(leaving)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(entering, leaving, 1, stride, bias=False), nn.BatchNorm2d(leaving))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch entering height width' -> 'batch leaving height width'`"""
        inner = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


def residual(size: Size) -> Built:
    """A stem, a residual block, one that halves the resolution, a classifier."""
    a, b = size(5), size(6)
    model = nn.Sequential(
        nn.Conv2d(size(3), a, 3, padding=1, bias=False),
        nn.BatchNorm2d(a),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        ResidualBlock(a, size(7), a, 1),
        ResidualBlock(a, size(8), b, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(b, size(4)),
    )
    return model, torch.randn(size(2), size(3), 9, 8)


class UNet(nn.Module):
    """Down twice, up twice, with what was before put beside; one way up is learned, one interpolates."""

    def __init__(self, size: Size):
        super().__init__()
        a, b, c, d = size(2), size(3), size(5), size(7)
        self.down1 = nn.Sequential(nn.Conv2d(size(4), a, 3, padding=1), nn.BatchNorm2d(a), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(1, b), nn.ReLU())
        self.bottom = nn.Conv2d(b, c, 3, padding=1)
        self.up2 = nn.ConvTranspose2d(c, d, 2, stride=2)
        self.merge2 = nn.Conv2d(d + b, size(6), 3, padding=1)
        self.merge1 = nn.Conv2d(size(6) + a, size(8), 3, padding=1)
        self.leave = nn.Conv2d(size(8), size(3), 1)

    def forward(self, x: Tensor) -> Tensor:
        """`'batch channels height width' -> 'batch classes height width'`"""
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        x = F.relu(self.bottom(F.avg_pool2d(second, 2)))
        x = F.relu(self.merge2(torch.cat([self.up2(x), second], 1)))
        x = F.interpolate(x, size=first.shape[-2:], mode="bilinear", align_corners=False)
        return self.leave(F.relu(self.merge1(torch.cat([x, first], 1))))


def u_net(size: Size) -> Built:
    """A U-Net."""
    return UNet(size), torch.randn(size(2), size(4), 8, 12)


class Branches(nn.Module):
    """Branches of different widths side by side, each output read by all later layers."""

    def __init__(self, size: Size):
        super().__init__()
        a, b, c = size(3), size(2), size(5)
        self.a, self.b = nn.Conv2d(size(4), a, 3, padding=1), nn.Conv2d(size(4), b, 1)
        self.norm = nn.BatchNorm2d(a + b)
        self.c = nn.Conv2d(a + b, c, 3, padding=1)
        self.mix = nn.Conv2d(a + b + c, a + b + c, 3, padding=1, groups=a + b + c)
        self.leave = nn.Linear(a + b + c, size(6))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch channels height width' -> 'batch classes'`"""
        both = F.relu(self.norm(torch.cat([self.a(x), self.b(x)], 1)))
        every = F.relu(self.mix(torch.cat([both, self.c(both)], 1)))
        return self.leave(every.mean((-2, -1)))


def dense_branches(size: Size) -> Built:
    """Concatenation, then a norm and a depthwise convolution over it."""
    return Branches(size), torch.randn(size(2), size(4), 5, 6)


def shuffles(size: Size) -> Built:
    """Pixel shuffle and its inverse, channels shuffled among groups."""
    a, b, groups, inside = size(3), size(5), size(2), size(3)
    model = nn.Sequential(
        nn.Conv2d(size(2), 4 * a, 3, padding=1),
        nn.PixelShuffle(2),
        nn.ReLU(),
        nn.Conv2d(a, b, 1),
        nn.PixelUnshuffle(2),
        nn.Conv2d(4 * b, groups * inside, 1),
        nn.ChannelShuffle(groups),
        nn.ReLU(),
        nn.Conv2d(groups * inside, size(7), 1),
    )
    return model, torch.randn(size(2), size(2), 4, 6)


ENTRIES = (
    Entry("convolutions", plain),
    Entry("convolutions flattened", flattened, unwanted=("7.weight[[]1].[12]",)),
    Entry("convolutions over time", one_dimensional, unwanted=("9.weight[[]1].1",)),
    Entry("convolutions over volumes", three_dimensional),
    Entry("depthwise convolutions", depthwise),
    Entry("grouped convolutions", grouped),
    Entry("transposed convolutions", transposed),
    Entry("transposed convolutions over time and volumes", transposed_other_dims),
    Entry("group norms", group_norms),
    Entry("instance norms", instance_norms),
    Entry("residual convolutions", residual),
    Entry("U-Net", u_net),
    Entry("concatenated branches", dense_branches),
    Entry("shuffles", shuffles, unwanted=("0.weight[[]0].1", "5.weight[[]1].1")),
)
