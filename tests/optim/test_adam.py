"""Moments of Adam and AdamW, against the grown net's own."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from growkit.optim.adam import ADAM, ADAMW
from growkit.optim.remap import remap_state
from growkit.optim.rules import Graded, OptimizerSpec
from tests.optim.twins import LAYOUTS, MAPS, UNEQUAL, Maps, relative, train_twins

SETTINGS = [
    (torch.optim.Adam, ADAM, {}),
    (torch.optim.Adam, ADAM, {"amsgrad": True, "betas": (0.5, 0.7)}),
    (torch.optim.Adam, ADAM, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    (torch.optim.AdamW, ADAMW, {"weight_decay": 0.1, "foreach": True}),
    (torch.optim.Adam, ADAM, {"fused": True, "maximize": True, "lr": torch.tensor(0.02)}),
    (torch.optim.AdamW, ADAMW, {"capturable": False, "foreach": False, "lr": torch.tensor(0.02)}),
]


@pytest.mark.parametrize(("kind", "spec", "options"), SETTINGS)
@settings(deadline=None, max_examples=8)
@given(maps=MAPS, seed=st.integers(0, 999))
def test_moments_are_what_the_grown_net_would_have(
    kind: type[torch.optim.Optimizer], spec: OptimizerSpec, options: dict[str, object], maps: Maps, seed: int
) -> None:
    twins = train_twins(partial(kind, **{"lr": 0.02} | options), maps, seed)
    assert twins.deviation <= 1e-12
    for name in LAYOUTS:
        state, reports = remap_state(twins.small[name], twins.group, spec, twins.dims[name])
        assert state.keys() == twins.grown[name].keys()
        for slot, value in state.items():
            assert relative(value, twins.grown[name][slot]) <= 1e-12, (name, slot)
        assert {(r.status, r.reason) for r in reports} == {("exact", "")}


@pytest.mark.parametrize(("slot", "wrong_degree"), [("exp_avg", 0), ("exp_avg", 2), ("exp_avg_sq", 1)])
def test_wrong_degrees_are_far_off(slot: str, wrong_degree: int) -> None:
    twins = train_twins(partial(torch.optim.Adam, lr=0.02), UNEQUAL, 0)
    wrong = replace(ADAM, state={**ADAM.state, slot: Graded(wrong_degree)})
    for name in ("first", "first_bias", "gain", "second"):
        state, _ = remap_state(twins.small[name], twins.group, wrong, twins.dims[name])
        assert relative(state[slot], twins.grown[name][slot]) > 1e-2, name


def test_moments_moved_like_the_values_are_far_off() -> None:
    twins = train_twins(partial(torch.optim.Adam, lr=0.02), UNEQUAL, 0)
    for name in ("first", "gain", "second", "third"):
        dims = [None if dim is None else replace(dim, gradient=dim.value) for dim in twins.dims[name]]
        state, _ = remap_state(twins.small[name], twins.group, ADAM, dims)
        assert relative(state["exp_avg"], twins.grown[name]["exp_avg"]) > 1e-2, name


def test_coupled_weight_decay_is_approximate_in_adam_only() -> None:
    twins = train_twins(partial(torch.optim.Adam, lr=0.02, weight_decay=0.1), UNEQUAL, 0)
    state, reports = remap_state(twins.small["first"], twins.group, ADAM, twins.dims["first"])
    assert relative(state["exp_avg"], twins.grown["first"]["exp_avg"]) > 1e-2
    assert {r.slot: r.status for r in reports} == {
        "step": "exact",
        "exp_avg": "approximate",
        "exp_avg_sq": "approximate",
    }
    assert {r.status for r in remap_state(twins.small["first"], twins.group, ADAMW, twins.dims["first"])[1]} == {
        "exact"
    }
