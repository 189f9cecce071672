"""Tests of the rules of ops that change the shape only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from growkit.axes.expressions import Leaf, Role
from growkit.discovery.discover import discover
from tests.discovery.models import Small, X, reasons


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(-1, x.shape[-1]),
        lambda x: x.flatten(0, 1).unsqueeze(0),
        lambda x: x.transpose(0, 2).permute(2, 1, 0),
        lambda x: x.unsqueeze(-2).squeeze(-2),
        lambda x: x[None].squeeze(),
        lambda x: x[:, :1].expand(-1, 7, -1),
        lambda x: x.repeat(2, 3, 1),
        lambda x: x.as_strided(x.shape, x.stride()),
        lambda x: x.contiguous().view(x.shape),
        lambda x: x.movedim(-1, 0).movedim(0, -1),
    ],
)
def test_the_last_axis_stays_the_same(function: object) -> None:
    table = discover(Small(lambda m, x: m.b(function(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert table.layouts["b.weight"].dims[1] == Leaf("a.weight[0]", Role.CONSUMES)
    assert reasons(table, "a.weight[0]") == []


def test_a_view_of_a_parameter_splits_it() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.a(x).unflatten(-1, (m.heads, -1)) + m.bias.view(m.heads, -1)

    table = discover(Small(run, a=nn.Linear(5, 6), bias=nn.Parameter(torch.zeros(6)), heads=2), X)
    assert str(table.layouts["bias"]) == "(a.weight[0].0 a.weight[0].1):produces"


def test_strides_over_an_axis_of_a_parameter_lock_it() -> None:
    table = discover(Small(lambda m, x: m.a(x).as_strided((2, 7, 2), (28, 4, 2)), a=nn.Linear(5, 4)), X)
    assert "entries are picked by stride" in reasons(table, "a.weight[0]")
