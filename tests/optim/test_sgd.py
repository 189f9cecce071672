"""Momentum of SGD, against the grown net's own."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from growkit.optim.remap import remap_state
from growkit.optim.sgd import SGD
from tests.optim.twins import LAYOUTS, MAPS, UNEQUAL, UNIFORM, Maps, relative, train_twins

SETTINGS = [
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True, "maximize": True},
    {"momentum": 0.7, "dampening": 0.4, "foreach": True},
    {"momentum": 0.9, "fused": True, "nesterov": True, "lr": torch.tensor(0.05)},
]


@pytest.mark.parametrize("options", SETTINGS)
@settings(deadline=None, max_examples=8)
@given(maps=MAPS, seed=st.integers(0, 999))
def test_momentum_is_what_the_grown_net_would_have(options: dict[str, object], maps: Maps, seed: int) -> None:
    twins = train_twins(partial(torch.optim.SGD, **{"lr": 0.05} | options), maps, seed)
    assert twins.deviation <= 1e-12
    for name in LAYOUTS:
        state, reports = remap_state(twins.small[name], twins.group, SGD, twins.dims[name])
        assert relative(state["momentum_buffer"], twins.grown[name]["momentum_buffer"]) <= 1e-12
        assert [(r.slot, r.status, r.reason) for r in reports] == [("momentum_buffer", "exact", "")]


def test_without_momentum_there_is_no_state() -> None:
    twins = train_twins(partial(torch.optim.SGD, lr=0.05), UNEQUAL, 0)
    for name in LAYOUTS:
        assert remap_state(twins.small[name], twins.group, SGD, twins.dims[name]) == ({}, ())


def test_weight_decay_is_approximate_where_values_and_gradients_move_apart() -> None:
    twins = train_twins(partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=0.1), UNEQUAL, 0)
    errors = {}
    for name in LAYOUTS:
        state, (report,) = remap_state(twins.small[name], twins.group, SGD, twins.dims[name])
        errors[name] = relative(state["momentum_buffer"], twins.grown[name]["momentum_buffer"])
        if name == "third_bias":
            assert (report.status, report.reason) == ("exact", "")
        else:
            assert report.status == "approximate"
            assert report.reason == "holds weight decay (0.1), which moves like the values; moved like the gradients"
    assert errors.pop("third_bias") <= 1e-12
    assert min(errors.values()) > 1e-2


def test_weight_decay_is_exact_between_axes_that_double_together() -> None:
    # value 1 * 1/2 and gradient 1/2 * 1 are equal on the matrix between them; its rows and columns alone are not.
    twins = train_twins(partial(torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=0.1), UNIFORM, 0)
    state, (report,) = remap_state(twins.small["second"], twins.group, SGD, twins.dims["second"])
    assert report.status == "exact"
    assert relative(state["momentum_buffer"], twins.grown["second"]["momentum_buffer"]) <= 1e-12
    assert remap_state(twins.small["first"], twins.group, SGD, twins.dims["first"])[1][0].status == "approximate"
