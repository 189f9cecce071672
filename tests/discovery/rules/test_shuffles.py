"""Tests of the rules of shuffles."""

from __future__ import annotations

import torch
from torch import nn

from growkit.discovery.discover import discover
from tests.discovery.models import passages, reasons

PLANE = torch.rand(2, 3, 4, 6).double()


def test_pixel_shuffle_makes_one_channel_of_many() -> None:
    table = discover(nn.Sequential(nn.Conv2d(3, 20, 1), nn.PixelShuffle(2), nn.Conv2d(5, 2, 1)).double(), PLANE)
    assert str(table.layouts["0.bias"]) == "(0.weight[0].0 0.weight[0].1):produces"
    assert str(table.layouts["2.weight"]) == "2.weight[0]:produces 0.weight[0].0:consumes 1 1"
    assert table.sizes["0.weight[0].0"] == 5
    assert reasons(table, "0.weight[0].0") == []
    assert reasons(table, "0.weight[0].1") == ["it counts the places of a pixel shuffle"]


def test_pixel_unshuffle_makes_many_channels_of_one() -> None:
    table = discover(nn.Sequential(nn.Conv2d(3, 5, 1), nn.PixelUnshuffle(2), nn.Conv2d(20, 2, 1)).double(), PLANE)
    assert str(table.layouts["2.weight"]) == "2.weight[0]:produces (0.weight[0] 2.weight[1].1):consumes 1 1"
    assert reasons(table, "0.weight[0]") == []


def test_channel_shuffle_exchanges_the_factors_and_its_groups_follow() -> None:
    table = discover(nn.Sequential(nn.Conv2d(3, 6, 1), nn.ChannelShuffle(2), nn.Conv2d(6, 2, 1)).double(), PLANE)
    assert str(table.layouts["0.bias"]) == "(0.weight[0].0 0.weight[0].1):produces"
    assert str(table.layouts["2.weight"]) == "2.weight[0]:produces (0.weight[0].1 0.weight[0].0):consumes 1 1"
    assert table["1.groups"] == table["0.weight[0].0"]
    assert passages(table, "0.weight[0].0") == set()


def test_shuffling_space_that_a_parameter_holds_locks_it() -> None:
    linear = nn.Linear(6, 4)
    for shuffle in (nn.PixelShuffle(2), nn.PixelUnshuffle(2)):
        model = nn.Sequential(nn.Conv2d(3, 4, 1), linear, shuffle).double()
        assert "runs over it" in reasons(discover(model, PLANE), "1.weight[0]")[0]
