"""Convolutions, their norms, and what is put beside or shuffled."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes

IMAGES = Family()
construct = IMAGES.construct


def _image(s: Sizes) -> Tensor:
    return s.data(s.batch, 3, 8, 8)


@construct("squeeze and excite", "enter.weight[0]", "down.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.relu(m.enter(x))
        gate = torch.sigmoid(m.up(torch.relu(m.down(h.mean((2, 3))))))
        return m.leave(h * gate[:, :, None, None])

    return Small(
        run, enter=nn.Conv2d(3, s.a, 3), down=nn.Linear(s.a, s.n), up=nn.Linear(s.n, s.a), leave=nn.Conv2d(s.a, s.o, 1)
    ), _image(s)  # fmt: skip


@construct("channel shuffle", "enter.weight[0].2", "grouped.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.relu(m.enter(x))
        b, c, height, width = h.shape
        h = h.view(b, m.groups, c // m.groups, height, width).transpose(1, 2).reshape(b, c, height, width)
        return m.leave(torch.relu(m.grouped(h)))

    return Small(
        run, enter=nn.Conv2d(3, 2 * s.a, 1), grouped=nn.Conv2d(2 * s.a, 2 * s.b, 3, groups=2),
        leave=nn.Conv2d(2 * s.b, s.o, 1), groups=2,
    ), _image(s)  # fmt: skip


@construct("shuffled into pixels", "enter.weight[0].0", refused={"enter.weight[0].1": "the places of a pixel shuffle"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.relu(F.pixel_unshuffle(F.pixel_shuffle(m.enter(x), 2), 2))),
        enter=nn.Conv2d(3, 4 * s.a, 3), leave=nn.Conv2d(4 * s.a, s.o, 1),
    ), _image(s)  # fmt: skip


@construct("skips of a U-Net", "enter.weight[0]", "down.weight[0]", "up.weight[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.relu(m.enter(x))
        low = torch.relu(m.down(F.max_pool2d(h, 2)))
        return m.leave(torch.relu(torch.cat([h, F.pad(m.up(low), (0, 0, 0, 0))], 1)))

    return Small(
        run, enter=nn.Conv2d(3, s.a, 3, padding=1), down=nn.Conv2d(s.a, s.b, 3, padding=1),
        up=nn.ConvTranspose2d(s.b, s.n, 2, stride=2), leave=nn.Conv2d(s.a + s.n, s.o, 1),
    ), _image(s)  # fmt: skip


@construct(
    "each layer sees all before it (DenseNet)", "enter.weight[0]", "layers.0.2.weight[0]", "layers.1.2.weight[0]"
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        for layer in m.layers:
            h = torch.cat([h, layer(h)], 1)
        return m.leave(torch.relu(h))

    layers = [
        nn.Sequential(nn.BatchNorm2d(c := s.a + i * s.n), nn.ReLU(), nn.Conv2d(c, s.n, 3, padding=1)) for i in range(2)
    ]
    return Small(
        run, enter=nn.Conv2d(3, s.a, 3), layers=nn.ModuleList(layers), leave=nn.Conv2d(s.a + 2 * s.n, s.o, 1)
    ), _image(s)  # fmt: skip


@construct("a list of all features, put together at the end", "layers.0.weight[0]", "layers.1.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        found = []
        for layer in m.layers:
            x = torch.relu(layer(x))
            found.append(F.adaptive_avg_pool2d(x, 2))
        return m.leave(torch.cat([f.flatten(1) for f in found], 1))

    return Small(
        run, layers=nn.ModuleList([nn.Conv2d(3, s.a, 3), nn.Conv2d(s.a, s.b, 3)]), leave=nn.Linear(4 * (s.a + s.b), s.o)
    ), _image(s)  # fmt: skip


def _normed(s: Sizes, norm: nn.Module, channels: int) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.relu(m.norm(m.enter(x)))), enter=nn.Conv2d(3, channels, 3), norm=norm,
        leave=nn.Conv2d(channels, s.o, 1),
    ), _image(s)  # fmt: skip


@construct("group norm of one group", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.GroupNorm(1, s.a), s.a)


@construct("group norm of as many groups as channels", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.GroupNorm(s.a, s.a), s.a)


@construct("instance norm without gains", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.InstanceNorm2d(s.a), s.a)


@construct("instance norm with running statistics", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.InstanceNorm2d(s.a, affine=True, track_running_stats=True), s.a)


@construct("batch norm without running statistics", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.BatchNorm2d(s.a, track_running_stats=False), s.a)


@construct("layer norm over channels and pixels", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.LayerNorm([s.a, 6, 6]), s.a)


@construct("layer norm over the last of two written sizes", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.LayerNorm(6), s.a)


@construct("local response norm", refused={"enter.weight[0]": "it is padded"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.LocalResponseNorm(3), s.a)


@construct("a slope for each channel", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _normed(s, nn.PReLU(s.a), s.a)


@construct("grouped and depthwise convolutions", "enter.weight[0].1", "wide.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    width = 3 * s.a
    return Small(
        lambda m, x: m.leave(torch.relu(m.wide(torch.relu(m.depth(torch.relu(m.group(m.enter(x)))))))),
        enter=nn.Conv2d(3, width, 1), group=nn.Conv2d(width, width, 3, groups=3),
        depth=nn.Conv2d(width, 2 * width, 3, groups=width), wide=nn.Conv2d(2 * width, s.b, 1),
        leave=nn.Conv2d(s.b, s.o, 1),
    ), _image(s)  # fmt: skip


@construct("channels last", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = _normed(s, nn.BatchNorm2d(s.a), s.a)
    return model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)


@construct("flattened into a linear layer", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.relu(m.mid(torch.relu(m.enter(x)).view(x.size(0), -1)))),
        enter=nn.Conv2d(3, s.a, 3), mid=nn.Linear(36 * s.a, s.b), leave=nn.Linear(s.b, s.o),
    ), _image(s)  # fmt: skip


@construct("flattened by a literal", refused={"enter.weight[0]": "is written in the code"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.relu(m.enter(x)).view(-1, 216 if s.a == 6 else 144)),
        enter=nn.Conv2d(3, s.a, 3), leave=nn.Linear(36 * s.a, s.o),
    ), _image(s)  # fmt: skip


@construct("patches by unfold", "patch.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.patch(F.unfold(x, 4, stride=4).transpose(1, 2)) + m.position)),
        patch=nn.Linear(48, s.a), position=weight(1, 4, s.a), leave=nn.Linear(s.a, s.o),
    ), _image(s)  # fmt: skip


@construct("windows of a Swin transformer", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.roll(m.enter(x).permute(0, 2, 3, 1), (-1, -1), (1, 2))
        b, height, width, c = h.shape
        h = h.view(b, height // m.w, m.w, width // m.w, m.w, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, m.w * m.w, c)
        h = m.mid(torch.tanh(h)) + h.mean(1, keepdim=True) @ m.mix
        h = h.view(b, height // m.w, width // m.w, m.w, m.w, -1).permute(0, 1, 3, 2, 4, 5).reshape(b, height, width, -1)
        return m.leave(torch.tanh(h))

    return Small(
        run, enter=nn.Conv2d(3, s.a, 1), mid=nn.Linear(s.a, s.b), mix=weight(s.a, s.b), leave=nn.Linear(s.b, s.o), w=4
    ), _image(s)  # fmt: skip


@construct("merged patches", "enter.weight[0]", "merge.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x).permute(0, 2, 3, 1)
        h = torch.cat([h[:, 0::2, 0::2], h[:, 1::2, 0::2], h[:, 0::2, 1::2], h[:, 1::2, 1::2]], -1)
        return m.leave(torch.tanh(m.merge(m.norm(h))))

    return Small(
        run, enter=nn.Conv2d(3, s.a, 1), norm=nn.LayerNorm(4 * s.a), merge=nn.Linear(4 * s.a, s.b, bias=False),
        leave=nn.Linear(s.b, s.o),
    ), _image(s)  # fmt: skip


@construct("strided down, interpolated up, summed", "down.weight[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        low = m.lateral(torch.relu(m.down(h)))
        return m.leave(torch.relu(h + F.interpolate(low, size=h.shape[-2:], mode="bilinear", align_corners=False)))

    return Small(
        run, enter=nn.Conv2d(3, s.a, 3, padding=1), down=nn.Conv2d(s.a, s.b, 3, stride=2, padding=1),
        lateral=nn.Conv2d(s.b, s.a, 1), leave=nn.Conv2d(s.a, s.o, 1),
    ), _image(s)  # fmt: skip


@construct(
    "channels shifted in time",
    "mid.weight[0]",
    "enter.weight[0].1",
    refused={"enter.weight[0].0": "is written in the code"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        shifted = torch.zeros_like(h)
        shifted[:, :, :-1, 0] = h[:, :, 1:, 0]
        shifted[:, :2, 1:, 1:] = h[:, :2, :-1, 1:]
        shifted[:, 2:] = h[:, 2:]
        return m.leave(torch.relu(m.mid(shifted)))

    return Small(
        run, enter=nn.Conv2d(3, s.a, 1), mid=nn.Conv2d(s.a, s.b, 1), leave=nn.Conv2d(s.b, s.o, 1)
    ), _image(s)  # fmt: skip


@construct(
    "a partial convolution beside an identity (FasterNet)",
    "leave.weight[1]",
    "enter.weight[0].0",
    "enter.weight[0].1",
    "conv.weight[0]",
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        first, rest = torch.split(h, [m.part, h.shape[1] - m.part], dim=1)
        return m.leave(torch.relu(m.mid(torch.cat([m.conv(first), rest], 1))))

    return Small(
        run, enter=nn.Conv2d(3, s.a, 1), conv=nn.Conv2d(2, 2, 3, padding=1), mid=nn.Conv2d(s.a, s.b, 1),
        leave=nn.Conv2d(s.b, s.o, 1), part=2,
    ), _image(s)  # fmt: skip
