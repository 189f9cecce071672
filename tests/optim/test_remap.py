"""States of single parameters: new entries, no state yet, what is reported, what is refused."""

from functools import partial

import pytest
import torch
from torch import Tensor

from growkit.errors import OptimizerError
from growkit.maps.lifting import DimMap
from growkit.optim.adam import ADAM
from growkit.optim.remap import remap_state
from growkit.optim.sgd import SGD
from tests.optim.twins import PARTLY_NEW, relative, train_twins

GROUP = {"weight_decay": 0}
NEW_ROW = DimMap(2, (0, 1, -1), (1.0, 1.0, 0.0), (1.0, 1.0, 0.0), (None,) * 3)
ADAM_STATE = {"step": torch.tensor(3.0), "exp_avg": torch.tensor([1.0, 3.0]), "exp_avg_sq": torch.tensor([2.0, 4.0])}


def adam_state() -> dict[str, object]:
    return {key: value.clone() for key, value in ADAM_STATE.items()}


def lists(state: dict[str, object]) -> dict[str, object]:
    return {key: value.tolist() if isinstance(value, Tensor) else value for key, value in state.items()}


@pytest.mark.parametrize(
    ("new_state", "expected"),
    [
        ("mean", {"step": 3.0, "exp_avg": [1.0, 3.0, 0.0], "exp_avg_sq": [2.0, 4.0, 3.0]}),
        ("zero", {"step": 3.0, "exp_avg": [1.0, 3.0, 0.0], "exp_avg_sq": [2.0, 4.0, 0.0]}),
        ("reset", {}),
    ],
)
def test_new_entries(new_state: str, expected: dict[str, object]) -> None:
    old = adam_state()
    state, reports = remap_state(old, GROUP, ADAM, [NEW_ROW], new_state=new_state)
    assert lists(state) == expected
    assert lists(old) == lists(ADAM_STATE)
    statuses = {r.slot: (r.status, r.reason) for r in reports}
    if new_state == "reset":
        afresh = (
            "reset",
            "new_state='reset' drops the whole state of parameters with new entries, that of old entries too",
        )
        assert statuses == {"step": afresh, "exp_avg": afresh, "exp_avg_sq": afresh}
    else:
        new = ("new", "1 entries are new")
        assert statuses == {"step": ("exact", ""), "exp_avg": new, "exp_avg_sq": new}


def test_reset_keeps_the_state_of_copies() -> None:
    doubled = DimMap(2, (0, 1, 0, 1), (1.0,) * 4, (0.5,) * 4, (None,) * 4)
    state, _ = remap_state(adam_state(), GROUP, ADAM, [doubled], new_state="reset")
    assert lists(state) == {"step": 3.0, "exp_avg": [0.5, 1.5, 0.5, 1.5], "exp_avg_sq": [0.5, 1.0, 0.5, 1.0]}


def test_old_entries_are_exact_beside_new_units() -> None:
    twins = train_twins(partial(torch.optim.Adam, lr=0.02), PARTLY_NEW, 1)
    assert twins.deviation <= 1e-12
    past = [0, 1, 3, 4, 5]
    for name, rows, columns in [("first", past, slice(None)), ("second", slice(None), past)]:
        state, reports = remap_state(twins.small[name], twins.group, ADAM, twins.dims[name])
        for slot in ("exp_avg", "exp_avg_sq"):
            assert relative(state[slot][rows][:, columns], twins.grown[name][slot][rows][:, columns]) <= 1e-12
        assert [r.reason for r in reports if r.status == "new"] == [
            f"{3 if name == 'first' else 4} entries are new"
        ] * 2
    # Nothing reads the new unit, so that it has had no gradient; its readers would have had one.
    assert torch.equal(twins.grown["first"]["exp_avg"][2], torch.zeros(3, dtype=torch.float64))
    assert torch.equal(state["exp_avg"][:, 2], torch.zeros(4, dtype=torch.float64))
    assert twins.grown["second"]["exp_avg"][:, 2].abs().min() > 0


def test_steps_advance_apart_after_the_remap() -> None:
    """A step tensor in two states would be advanced once for each of them."""
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    optimizer = torch.optim.Adam(parameters, foreach=False)
    shared = adam_state()
    for parameter in parameters:
        optimizer.state[parameter] = remap_state(shared, GROUP, ADAM, [None])[0]
        parameter.grad = torch.ones(2)
    optimizer.step()
    optimizer.step()
    assert [float(optimizer.state[p]["step"]) for p in parameters] == [5.0, 5.0]
    assert shared["step"] == 3.0


def test_a_parameter_without_state_stays_without() -> None:
    assert remap_state({}, GROUP, ADAM, [NEW_ROW]) == ({}, ())


def test_a_momentum_buffer_that_is_none_stays_none() -> None:
    state, reports = remap_state({"momentum_buffer": None}, GROUP, SGD, [NEW_ROW])
    assert state == {"momentum_buffer": None}
    assert [r.status for r in reports] == ["exact"]


def test_decay_and_new_entries_are_both_named() -> None:
    quarter = DimMap(2, (0, 1, 0, -1), (1.0, 1.0, 1.0, 0.0), (0.75, 1.0, 0.25, 0.0), (None,) * 4)
    _, (report,) = remap_state({"momentum_buffer": torch.ones(2)}, {"weight_decay": 0.5}, SGD, [quarter])
    assert report.status == "approximate"
    assert report.reason.startswith("holds weight decay (0.5)")
    assert report.reason.endswith("; 1 entries are new")


@pytest.mark.parametrize(("value", "gradient"), [(1.0, 0.0), (2.0, 0.5)])
def test_decay_is_seen_in_a_constant_ratio(value: float, gradient: float) -> None:
    dim = DimMap(1, (0, 0), (value, value), (gradient, gradient), (None, None))
    _, (report,) = remap_state({"momentum_buffer": torch.ones(1)}, {"weight_decay": 0.5}, SGD, [dim])
    assert report.status == "approximate"


def test_unknown_new_state() -> None:
    with pytest.raises(OptimizerError) as caught:
        remap_state(adam_state(), GROUP, ADAM, [NEW_ROW], new_state="median")
    assert caught.value.given == "new_state='median'"
    assert caught.value.allowed == "mean, zero, reset"
