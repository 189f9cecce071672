"""Tests of declared layouts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit.axes.expressions import Role
from growkit.discovery.discover import discover
from growkit.errors import AxisLockedError, LayoutError
from growkit.growth.api import grow
from growkit.testing import assert_function_preserved
from tests.discovery.models import Small, X, unknown, weight

MLP = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)).double()


def test_labels_name_the_axes() -> None:
    table = discover(MLP, X, {"2.weight": "classes:produces hidden:consumes"})
    assert [axis.name for axis in table] == ["hidden", "0.weight[1]", "classes"]
    assert str(table.layouts["0.weight"]) == "hidden:produces 0.weight[1]:consumes"
    assert "0.weight[0]" in table.by_name["hidden"].names


def test_equal_labels_are_one_axis() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(unknown(m.a(x)))

    model = Small(run, a=nn.Linear(5, 6), b=nn.Linear(6, 3))
    assert discover(model, X).layouts["b.weight"].axes() != ("b.weight[0]", "a.weight[0]")
    table = discover(model, X, {"a.weight": "h i", "b.weight": "o h"})
    assert [str(o) for o in table.by_name["h"].occurrences] == ["a.weight[0]", "a.bias[0]", "b.weight[1]"]
    assert not table.by_name["h"].locked


def test_structure_and_roles_may_be_declared_where_the_run_shows_none() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return unknown(m.a(x)) * unknown(m.extra)

    model = Small(run, a=nn.Linear(5, 6), extra=weight(6))
    table = discover(model, X, {"extra": "(2 d):gain", "a.bias": "(2 d)"})
    assert table.sizes["d"] == 3
    assert {o.role for o in table.by_name["d"].occurrences} == {Role.GAIN, Role.PRODUCES}


def test_tensors_that_are_never_read_can_be_declared() -> None:
    model = Small(lambda m, x: m.a(x), a=nn.Linear(5, 4), mask=weight(5))
    assert discover(model, X)["mask[0]"][0].locked
    table = discover(model, X, {"mask": "i:produces", "a.weight": "o i"})
    assert table.unreached == ("mask",)
    assert "not read in the traced run" not in [lock.reason for lock in table.by_name["i"].locks]


@pytest.mark.parametrize(
    ("layouts", "given", "allowed"),
    [
        ({"wieght": "a"}, "a layout for 'wieght'", "0.weight, 0.bias"),
        ({"0.weight": "a"}, "layout 'a' with 1 dims for '0.weight' of shape (6, 5)", "2 dims"),
        ({"0.weight": "a a"}, "gives shape (6, 6)", "its shape (6, 5)"),
        ({"0.weight": "a 4"}, "gives shape (6, 4)", "its shape (6, 5)"),
        ({"0.weight": "(a b) i"}, "sizes of a, b in a dim of 6 units", "follow from the shapes"),
        ({"0.bias": "(3 a)", "2.weight": "o [b|b]"}, "contradicts the traced run", "agrees"),
        ({"0.weight": "a i", "2.weight": "o b"}, "a and b are one axis in the run", "agrees"),
        ({"0.weight": "a:gain i"}, "a is declared gain, traced produces", "agrees"),
    ],
)
def test_contradictions_show_both_sides(layouts: dict[str, str], given: str, allowed: str) -> None:
    with pytest.raises(LayoutError) as caught:
        discover(MLP, X, layouts)
    assert given in caught.value.given
    assert allowed in caught.value.allowed


def test_a_contradiction_prints_declared_and_traced() -> None:
    with pytest.raises(LayoutError) as caught:
        discover(MLP, X, {"0.weight": "a:gain i"})
    assert "declared: a:gain i\n    traced:   " in caught.value.given
    assert caught.value.given.endswith(":consumes")


@pytest.mark.parametrize("layouts", [{"a.weight": 3}, ["a"], "a.weight"])
def test_what_is_no_mapping_of_texts_is_refused(layouts: Any) -> None:
    with pytest.raises(LayoutError, match="layouts="):
        discover(Small(lambda m, x: m.a(x), a=nn.Linear(5, 4)), X, layouts=layouts)


class Layers(nn.Module):
    """Layers whose mixing no rule follows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 4)
        self.layers = nn.ModuleList(nn.ModuleDict({"up": nn.Linear(4, 6), "down": nn.Linear(6, 4)}) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = x + layer["down"](unknown(layer["up"](x)))
        return x


def test_a_glob_declares_every_tensor_that_it_fits() -> None:
    model = Layers().double()
    assert discover(model, X)["layers.0.up.weight[0]"][0].locked
    layouts = {
        "layers.*.up.weight": "h:produces stream:consumes",
        "layers.*.down.weight": "stream:produces h:consumes",
        "layers.1.up.weight": "last:produces stream:consumes",
        "layers.1.down.weight": "stream:produces last:consumes",
    }
    table = discover(model, X, layouts)
    assert [str(o) for o in table.by_name["h"].occurrences if "weight" in str(o)] == [
        "layers.0.up.weight[0]",
        "layers.0.down.weight[1]",
    ]
    before = copy.deepcopy(model)
    with pytest.raises(AxisLockedError):
        grow(copy.deepcopy(model), widen={"layers.0.up.weight[0]": 9}, example_inputs=X)
    grow(model, widen={"h": 9, "last": 7}, example_inputs=X, layouts=layouts)
    assert_function_preserved(before, model, X)


@pytest.mark.parametrize(
    ("layouts", "text"),
    [
        ({"layer.*.up.weight": "h i"}, "a layout for 'layer..*.up.weight', which fits no tensor"),
        ({"**.0.up.weight": "h i", "layers.*.up.weight": "i h"}, "two layouts for 'layers.0.up.weight': 'h i' by"),
        ({"layers.*.up.weight": "h"}, "layout 'h' with 1 dims for 'layers.0.up.weight'"),
    ],
)
def test_globs_that_fit_nothing_or_two_ways_are_refused(layouts: dict[str, str], text: str) -> None:
    with pytest.raises(LayoutError, match=text):
        discover(Layers().double(), X, layouts)


def test_a_label_that_is_a_place_of_the_run_is_the_axis_there() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unread = nn.Parameter(torch.randn(6))
            self.first, self.heads = nn.Linear(3, 6), nn.Linear(6, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x).unflatten(-1, (2, 3))
            return self.heads((x * x.mean(-1, keepdim=True)).flatten(-2))

    table = discover(Model(), torch.randn(5, 3), layouts={"unread": "(first.weight[0].0 first.weight[0].1):produces"})
    assert len(table.by_name) == len(table)
    assert [leaf.axis for leaf in table.layouts["unread"]] == [leaf.axis for leaf in table.layouts["first.bias"]]
    assert not any("not read" in lock.reason for axis in table for lock in axis.locks)
    with pytest.raises(LayoutError, match="gives shape"):
        discover(Model(), torch.randn(5, 3), layouts={"unread": "first.weight[0].1:produces"})
