"""Tests of the dims that calls give ints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.axes.patterns import show
from growkit.axes.table import AxisTable
from growkit.discovery.discover import discover
from growkit.errors import SizeError
from growkit.growth.planning import make_plan
from tests.discovery.models import Small, X, reasons, weight


def table_of(use: Any, **ints: int) -> AxisTable:
    """Discovery of a use of 8 units that a linear layer makes."""
    return discover(
        Small(
            lambda m, x: m.leave(use(m, m.a(x)).sum(-1, keepdim=True)), a=nn.Linear(5, 8), leave=nn.Linear(1, 2), **ints
        ),
        X,
    )


def locked(table: AxisTable, axis: str) -> bool:
    """Whether an axis is locked because of a number from nowhere."""
    return any("is written in the code, or was lost on its way" in reason for reason in reasons(table, axis))


FIRST, SECOND = "a.weight[0].0", "a.weight[0].1"


@pytest.mark.parametrize(
    ("use", "axes"),
    [
        (lambda m, y: y[..., :3], [FIRST]),
        (lambda m, y: y[..., 3:], [FIRST]),
        (lambda m, y: y[..., -3:], [SECOND]),
        (lambda m, y: y[..., :-3], [SECOND]),
        (lambda m, y: y[..., : np.int64(3)], [FIRST]),
        (lambda m, y: y[..., : torch.tensor(3)], [FIRST]),
        (lambda m, y: y[torch.ones(2, 7, dtype=torch.bool), :3], [FIRST]),
        (lambda m, y: y[..., :8], ["a.weight[0]"]),
        (lambda m, y: y[..., -8:], ["a.weight[0]"]),
        (lambda m, y: y[..., :100], ["a.weight[0]"]),
        (lambda m, y: _written(y, slice(None, 3)), [FIRST]),
        (lambda m, y: _written(y, slice(-3, None)), [SECOND]),
        (lambda m, y: y.narrow(-1, 0, 3), [FIRST]),
        (lambda m, y: y.narrow(dim=-1, length=3, start=-3), [SECOND]),
        (lambda m, y: y.tensor_split([3], -1)[0], [FIRST]),
        (lambda m, y: y.tensor_split([-3], dim=-1)[0], [SECOND]),
        (lambda m, y: y.tensor_split(3, -1)[0], [FIRST, SECOND, "a.weight[0].2"]),
        (lambda m, y: y.flatten(0, 1).hsplit([3])[1], [FIRST]),
        (lambda m, y: y.flatten(0, 1).mT.vsplit([3])[1].mT, [FIRST]),
        (lambda m, y: y.unsafe_split(4, -1)[0], [FIRST]),
        (lambda m, y: torch.ops.aten.slice(y, 2, 0, 3), [FIRST]),
        (lambda m, y: y.view(2, 7, -1, np.int64(4)).sum(-1), [SECOND]),
        (lambda m, y: y.view(2, 7, -1, torch.tensor(4)).sum(-1), [SECOND]),
    ],
)
def test_numbers_from_nowhere_lock_what_they_size(use: Any, axes: list[str]) -> None:
    table = table_of(use)
    found = [axis.name for axis in table if axis.name.startswith("a.weight[0]") and locked(table, axis.name)]
    assert found == axes


def _written(y: Tensor, units: slice) -> Tensor:
    y[..., units] = 0
    return y


@pytest.mark.parametrize(
    ("use", "sizes"),
    [
        (lambda m, y: y[..., : m.n], FIRST),
        (lambda m, y: y[..., -m.n :], SECOND),
        (lambda m, y: y[..., : -m.n], SECOND),
        (lambda m, y: y.narrow(-1, m.n, y.shape[-1] - m.n), FIRST),
        (lambda m, y: y.tensor_split([m.n], -1)[0], FIRST),
        (lambda m, y: _written(y, slice(None, m.n)), FIRST),
        (lambda m, y: y[..., : m.all], "a.weight[0]"),
    ],
)
def test_bounds_of_slices_are_sizes_of_what_they_take(use: Any, sizes: str) -> None:
    table = table_of(use, n=3, all=8)
    (number,) = (number for number in table.numbers if number.read)
    assert [show([size]) for size in number.sizes] == [sizes]
    assert not any(locked(table, axis.name) for axis in table)


@pytest.mark.parametrize(
    "use",
    [
        lambda m, y: torch.stack(y.unsafe_chunk(2, -1)).sum(0),
        lambda m, y: torch.stack(y.tensor_split(2, -1)).sum(0),
        lambda m, y: torch.stack(y.flatten(0, 1).hsplit(2)).sum(0),
        lambda m, y: torch.stack(y.dsplit(2)).sum(0),
    ],
)
def test_parts_are_equally_large(use: Any) -> None:
    table = discover(Small(lambda m, x: _parts(m, use, x), a=nn.Linear(5, 8), b=nn.Linear(4, 2)), X)
    assert not any(locked(table, axis.name) for axis in table)
    assert {axis.size for axis in table if axis.name.startswith("a.weight[0]")} == {4}


def _parts(m: Any, use: Any, x: Tensor) -> Any:
    return m.b(use(m, m.a(x)))


def test_slices_of_what_no_parameter_holds_are_free() -> None:
    table = discover(Small(lambda m, x: m.b(m.a(x)[:, -3:, :][:, :2]), a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert reasons(table, "a.weight[0]") == []


@pytest.mark.parametrize(
    "use",
    [
        lambda m, y: F.conv1d(input=y.mT, weight=m.kernel, groups=m.groups).mT,
        lambda m, y: F.conv1d(y.mT, m.kernel, None, 1, 0, 1, m.groups).mT,
        lambda m, y: F.group_norm(input=F.conv1d(y.mT, weight=m.kernel, groups=m.groups), num_groups=m.groups).mT,
    ],
)
def test_arguments_by_name_are_read_as_those_by_place(use: Any) -> None:
    parts = {"a": nn.Linear(5, 8), "kernel": weight(8, 4, 1), "groups": 2, "b": nn.Linear(8, 4)}
    table = discover(Small(lambda m, x: m.b(use(m, m.a(x))), **parts), X)
    (number,) = (number for number in table.numbers if number.path == "groups")
    assert show(number.sizes) == "a.weight[0].0"
    assert str(table.layouts["kernel"]).startswith("(a.weight[0].0:gain ")


def test_pieces_of_what_is_given_by_name_are_equally_large() -> None:
    parts = {"a": nn.Linear(5, 8), "b": nn.Linear(4, 2)}
    table = discover(Small(lambda m, x: m.b(torch.chunk(input=m.a(x), chunks=2, dim=-1)[0]), **parts), X)
    assert str(table.layouts["a.bias"]) == "[a.weight[0].0|a.weight[0].1]:produces"


def test_a_projection_has_fewer_units_than_the_state() -> None:
    """Of 5 units, it may have 4."""
    model = Small(lambda m, x: m.b(m.net(x)[0]), net=nn.LSTM(5, 5, proj_size=2, batch_first=True), b=nn.Linear(2, 2))
    table = discover(model, X)
    make_plan(table, {"net.weight_hr_l0[0]": 4})
    with pytest.raises(SizeError, match="net"):
        make_plan(table, {"net.weight_hr_l0[0]": 5})
    make_plan(table, {"net.weight_hr_l0[1]": 9})
