"""Growth of parameters that are combined, or pass a function, before they are used."""

from __future__ import annotations

import copy

import pytest
import torch

import growkit as gk
from growkit.growth.resolve import resolve
from growkit.maps.methods.table import METHODS
from growkit.testing import randomise
from growkit.testing.sweep import Sweep
from tests.end_to_end.computed import COMPUTED, EQUAL, ODD, Sizes
from tests.end_to_end.test_zoo_gradients import gradients, mapped

ADMITTED = {
    "low rank, beside a weight": {"w[0]": "cfnz", "enter.weight[0]": "cfnz", "a[0]": "cfniz"},
    "three factors": {"c[0]": "cfnz", "b[0]": "cfniz", "a[0]": "cfniz", "enter.weight[0]": "cfnz"},
    "scaled rank": {"b[0]": "cfnz", "e[0]": "cfniz", "enter.weight[0]": "cfnz"},
    "added by addmm": {"w[0]": "cfnz", "enter.weight[0]": "cfnz", "a[0]": "cfniz"},
    "mask": {"w[0]": "cfnz", "enter.weight[0]": "cfnz"},
    "scales of rows and columns": {"w[0]": "cfnz", "enter.weight[0]": "cfnz"},
    "gated entry by entry": {"w[0]": "cfnz", "enter.weight[0]": "cfnz"},
    "outer product": {"u[0]": "cfnz", "enter.weight[0]": "cfnz"},
    "function": {"w[0]": "cfnz", "enter.weight[0]": "f"},
    "square": {"w[0]": "cfn", "enter.weight[0]": ""},
    "stacked": {"p[0]": "cfnz", "enter.weight[0]": "cfniz"},
    "side by side": {"p[0]": "cfnz", "a.weight[0]": "cfniz", "b.weight[0]": "cfniz"},
    "weight norm of rows": {"inner.bias[0]": "cfnz", "enter.weight[0]": "cf"},
    "weight norm of columns": {"inner.bias[0]": "cz", "enter.weight[0]": "cfnz"},
    "normalised rows": {"g[0]": "cfnz", "enter.weight[0]": "f"},
    "weight norm of places": {"enter.weight[0].0": "c", "enter.weight[0].1": "c"},
}
"""First letters of the methods that inner axes admit, derived by hand."""


def _sweep(name: str, sizes: Sizes) -> Sweep:
    inputs = torch.randn(2, 3, sizes[0], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Sweep(randomise(COMPUTED[name](sizes).double()).eval(), inputs)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [ODD, EQUAL], ids=["odd", "equal"])
@pytest.mark.parametrize("name", COMPUTED)
def test_outputs_stay(name: str, sizes: Sizes) -> None:
    sweep = _sweep(name, sizes)
    sweep.every_axis()
    sweep.together({}, 2.0)
    assert sweep.grown >= {sweep.table[axis][0].name for axis, letters in ADMITTED[name].items() if letters}
    assert sweep.of("wrong") == sweep.of("caught") == []


@pytest.mark.parametrize("name", COMPUTED)
def test_gradients_are_mapped(name: str) -> None:
    """Autograd's gradients of the grown model are the mapped ones of the small model, so moments move exactly."""
    sweep = _sweep(name, ODD)
    before = gradients(sweep.model, sweep.inputs)
    largest = max(float(g.abs().max()) for g in before.values())
    for axis, letters in ADMITTED[name].items():
        (found,) = sweep.table[axis]
        assert {m[0] for words in found.admits for m in words.partition("(")[2].rstrip(")").split(", ")} == set(letters)
        for method in (m for m in METHODS if m[0] in letters):
            plan = sweep.plan({axis: 2 * sweep.table[axis][0].size}, method)
            assert isinstance(plan, gk.Plan)
            edits = resolve(plan, sweep.model).edits
            grown = copy.deepcopy(sweep.model)
            gk.grow(grown, plan, example_inputs=sweep.inputs)
            after = gradients(grown, sweep.inputs)
            for tensor, old in before.items():
                everywhere = torch.ones_like(old).bool()
                expected, known = mapped(old, edits[tensor].dims) if tensor in edits else (old, everywhere)
                assert float((after[tensor] - expected)[known].abs().max()) <= 1e-12 * largest, (tensor, method)
