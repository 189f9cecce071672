"""Tests of the rule of convolutions."""

from __future__ import annotations

import torch
from torch import nn

from growkit.discovery.discover import discover
from tests.discovery.models import Small, X, passages, reasons, weight

CHANNELS = X.transpose(1, 2).contiguous()  # batch 2, channels 5, time 7


def test_convolution_produces_and_consumes_channels() -> None:
    model = Small(lambda m, x: m.b(m.a(x.transpose(1, 2))), a=nn.Conv1d(5, 4, 3), b=nn.Conv1d(4, 6, 2, bias=False))
    table = discover(model, X)
    assert str(table.layouts["b.weight"]) == "b.weight[0]:produces a.weight[0]:consumes b.weight[2]"
    assert reasons(table, "b.weight[2]") == ["it counts the places of a convolution kernel"]
    (axis,) = table["a.weight[0]"]
    assert (axis.kind, axis.locked) == ("channels", False)


def test_a_depthwise_kernel_is_a_gain() -> None:
    model = Small(lambda m, x: m.b(m.a(x).transpose(1, 2)), a=nn.Linear(5, 4), b=nn.Conv1d(4, 4, 3, groups=4))
    table = discover(model, X)
    assert str(table.layouts["b.weight"]) == "a.weight[0]:gain 1 b.weight[2]"
    assert str(table.layouts["b.bias"]) == "a.weight[0]:produces"
    assert passages(table, "a.weight[0]") == {"depthwise_conv", "output"}


def test_several_outputs_a_channel() -> None:
    model = nn.Sequential(nn.Conv1d(5, 4, 1), nn.Conv1d(4, 12, 3, groups=4), nn.Conv1d(12, 2, 1)).double()
    table = discover(model, CHANNELS)
    assert str(table.layouts["1.weight"]) == "(0.weight[0]:gain 1.weight[0].1:produces) 1 1.weight[2]"
    assert str(table.layouts["1.bias"]) == "(0.weight[0] 1.weight[0].1):produces"
    assert str(table.layouts["2.weight"]) == "2.weight[0]:produces (0.weight[0] 1.weight[0].1):consumes 1"
    assert table.sizes["1.weight[0].1"] == 3


def test_groups() -> None:
    model = nn.Sequential(nn.Conv1d(5, 6, 1), nn.Conv1d(6, 4, 3, groups=2)).double()
    table = discover(model, CHANNELS)
    assert str(table.layouts["0.weight"]) == "(0.weight[0].0 0.weight[0].1):produces 0.weight[1]:consumes 1"
    assert str(table.layouts["1.weight"]) == (
        "(0.weight[0].0:gain 1.weight[0].1:produces) 0.weight[0].1:consumes 1.weight[2]"
    )
    assert passages(table, "0.weight[0].0") == {"grouped_conv", "output"}
    assert passages(table, "0.weight[0].1") == set()
    assert table["1.groups"] == table["0.weight[0].0"]


def test_transposed_convolutions_have_the_channels_they_read_first() -> None:
    model = nn.Sequential(nn.ConvTranspose1d(5, 6, 3), nn.ConvTranspose1d(6, 4, 2, groups=2)).double()
    table = discover(model, CHANNELS)
    assert str(table.layouts["0.weight"]) == "0.weight[0]:consumes (0.weight[1].0 0.weight[1].1):produces 0.weight[2]"
    assert str(table.layouts["1.weight"]) == (
        "(0.weight[1].0:gain 0.weight[1].1:consumes) 1.weight[1]:produces 1.weight[2]"
    )
    assert str(table.layouts["1.bias"]) == "(0.weight[1].0 1.weight[1]):produces"


def test_a_depthwise_transposed_kernel_is_a_gain() -> None:
    model = nn.Sequential(nn.Conv1d(5, 4, 1), nn.ConvTranspose1d(4, 4, 3, groups=4)).double()
    assert str(discover(model, CHANNELS).layouts["1.weight"]) == "0.weight[0]:gain 1 1.weight[2]"


def test_groups_across_a_concatenation_are_locked() -> None:
    """Two branches of 2 and 4 channels in 3 groups of 2: where a group ends depends on the sizes of both."""
    model = Small(
        lambda m, x: m.c(torch.cat([m.a(x), m.b(x)], 1)),
        a=nn.Conv1d(5, 2, 1), b=nn.Conv1d(5, 4, 1), c=nn.Conv1d(6, 3, 1, groups=3),
    )  # fmt: skip
    table = discover(model, CHANNELS)
    assert "groups that cannot be followed" in reasons(table, "a.weight[0]")[0]
    assert "groups that cannot be followed" in reasons(table, "b.weight[0]")[0]


def test_a_kernel_that_is_computed_is_locked() -> None:
    def run(m: Small, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv1d(m.a(x), x.mean() * m.kernel)

    table = discover(Small(run, a=nn.Conv1d(5, 4, 1), kernel=weight(3, 4, 2)), CHANNELS)
    assert reasons(table, "a.weight[0]") == ["a convolution whose kernel is no parameter"]


def test_a_layer_over_the_places_of_a_convolution_has_the_size_of_the_data() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Conv1d(2, 5, 3)
            self.up, self.down = nn.Linear(6, 7), nn.Linear(7, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.enter(x)
            return x + self.down(self.up(x).relu())

    table = discover(Model(), torch.randn(3, 2, 8))
    (places,) = table["up.weight[1]"]
    assert places is table.by_name["down.weight[0]"]
    assert [lock.reason for lock in places.locks] == [
        "it counts the places of what convolution gives: its size is that of the data"
    ]
    assert not table["up.weight[0]"][0].locked
