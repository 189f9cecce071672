"""Zeros after the old units, which are scaled so that the mean of squares stays."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from growkit.growth.api import grow
from growkit.maps.methods import zero_pad
from growkit.maps.methods.rms_pad import METHOD
from growkit.testing import assert_function_preserved, randomise


def test_by_hand() -> None:
    made = METHOD.make(2, 8, "")
    assert made.source == (0, 1, -1, -1, -1, -1, -1, -1)
    assert made.expand == (2.0, 2.0) + (0.0,) * 6
    assert made.contract == (0.5, 0.5) + (0.0,) * 6
    assert made.padded
    assert METHOD.fills == zero_pad.METHOD.fills


def test_the_mean_of_squares_stays() -> None:
    made = METHOD.make(6, 9, "")
    assert made.self_dual
    assert made.energy == pytest.approx(9 / 6, rel=1e-15)


class Normed(nn.Module):
    """A stream under RMS norms of one large eps."""

    def __init__(self, size: int = 6):
        super().__init__()
        self.first, self.last = nn.Linear(4, size), nn.Linear(size, 3)
        self.norms = nn.ModuleList(nn.RMSNorm(size, eps=0.1) for _ in range(2))
        self.up, self.down = nn.Linear(size, 5), nn.Linear(5, size)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = x + self.down(torch.relu(self.up(self.norms[0](x))))
        return self.last(self.norms[1](x))


def test_norms_pass_with_the_eps_they_have() -> None:
    model = randomise(Normed().double())
    before, inputs = copy.deepcopy(model), torch.randn(5, 4).double()
    report = grow(model, widen={"first.weight[0]": 9}, example_inputs=inputs)
    assert_function_preserved(before, model, inputs)
    assert [step.method for step in report.plan.width] == ["rms_pad"]
    assert report.plan.floats == ()
    assert [norm.eps for norm in model.norms] == [0.1, 0.1]
