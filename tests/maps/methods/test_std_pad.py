"""Copies and means of the old units, scaled so that the variance stays."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from growkit.growth.api import grow
from growkit.maps.methods import mean_pad
from growkit.maps.methods.std_pad import METHOD
from growkit.testing import assert_function_preserved, randomise


def test_by_hand() -> None:
    made = METHOD.make(2, 9, "")  # four copies and a mean: 9 / 8 of the variance is missing
    assert made.source == (0, 1) * 4 + (-1,)
    assert made.expand == pytest.approx((1.125**0.5,) * 8 + (0.0,), rel=1e-15)
    assert made.contract == pytest.approx((0.25 / 1.125**0.5,) * 8 + (0.0,), rel=1e-15)
    assert made.averaged
    assert METHOD.fills == mean_pad.METHOD.fills


class Normed(nn.Module):
    """A stream under layer norms of one large eps, and a table that is the head as well."""

    def __init__(self, size: int = 6):
        super().__init__()
        self.table = nn.Embedding(7, size)
        self.norms = nn.ModuleList(nn.LayerNorm(size, eps=0.1) for _ in range(2))
        self.up, self.down = nn.Linear(size, 5), nn.Linear(5, size)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        x = x + self.down(torch.relu(self.up(self.norms[0](x))))
        return self.norms[1](x) @ self.table.weight.T


@pytest.mark.parametrize("size", [9, 15])
def test_norms_pass_with_the_eps_they_have(size: int) -> None:
    model = randomise(Normed().double())
    before, inputs = copy.deepcopy(model), torch.arange(7)[None]
    report = grow(model, widen={"table.weight[1]": size}, example_inputs=inputs)
    assert_function_preserved(before, model, inputs)
    assert [step.method for step in report.plan.width] == ["std_pad"]
    assert report.plan.floats == ()
    assert [norm.eps for norm in model.norms] == [0.1, 0.1]
