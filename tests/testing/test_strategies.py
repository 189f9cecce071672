"""Strategies give what they say."""

import torch
from hypothesis import find, given, settings
from hypothesis import strategies as st

from growkit import Insert, discover, make_plan
from growkit.testing.strategies import conformers, deepenings, mlps, widenings
from tests.growth.nets import residual, rows


@settings(max_examples=8)
@given(st.one_of(mlps(), conformers()), st.data())
def test_models_run_and_growths_are_admitted(case: object, data: st.DataObject) -> None:
    inputs = case.inputs if isinstance(case.inputs, tuple) else (case.inputs,)  # type: ignore[attr-defined]
    result = case.model(*inputs)  # type: ignore[attr-defined]
    assert result.dtype == torch.float64
    assert result.isfinite().all()
    table = discover(case.model, case.inputs)  # type: ignore[attr-defined]
    widening, deepen = data.draw(widenings(table)), data.draw(deepenings(table))
    assert 1 <= len(widening.widen) <= 4
    plan = make_plan(table, widening.widen, deepen, method=widening.method)
    assert {s.axis: s.method for s in plan.width} == widening.method
    assert len(plan.depth) == len(deepen)


@settings(max_examples=5)
@given(conformers(st.just(4)))
def test_sizes_can_all_be_equal(case: object) -> None:
    sizes = {size for p in case.model.parameters() for size in p.shape}  # type: ignore[attr-defined]
    assert sizes <= {1, 3, 4, 8, 16}  # 3 taps; value and gate of 4 channels; 4 heads of 4
    assert case.inputs[0].shape == (2, 4, 4)  # type: ignore[attr-defined]


def test_every_method_and_every_place_comes_up() -> None:
    table = discover(residual(), rows())
    for method in ("copy", "fresh"):
        found = find(widenings(table), lambda w, method=method: method in w.method.values())
        assert method in found.method.values()
    assert find(deepenings(table), lambda d: d == {"blocks": Insert([0])}) == {"blocks": Insert([0])}
    assert find(deepenings(table), lambda d: d == {}) == {}
