"""Plans from requests."""

import pytest

from growkit import Insert, discover, make_plan
from growkit.errors import DepthError, PlanError, SizeError
from growkit.growth.fingerprint import fingerprint_of
from tests.growth.nets import conformer, residual, rows, utterances


def test_nothing_asked_for_is_refused() -> None:
    table = discover(residual(), rows())
    for widen, deepen in ((None, None), ({}, {}), ({}, None)):
        with pytest.raises(PlanError, match="a growth that asks for nothing"):
            make_plan(table, widen, deepen)


def test_a_plan_has_the_layouts_of_what_grows_and_the_sizes_in_them() -> None:
    table = discover(conformer(), utterances())
    plan = make_plan(table, {"num_heads": 3})
    attention = "encoder.layers.0.attention."
    changed = {"query", "key", "value", "position", "out"}
    expected = {f"{attention}{part}.weight" for part in changed} | {
        f"{attention}{p}.bias" for p in ("query", "key", "value")
    }
    assert set(plan.layouts) == expected | {f"{attention}pos_bias_{letter}" for letter in "uv"}
    names = {leaf.axis for text in plan.layouts for leaf in table.layouts[text]}
    assert plan.sizes == {name: table.sizes[name] for name in names}
    assert plan.fingerprint == fingerprint_of(table)


def test_depth_alone_changes_no_layout() -> None:
    plan = make_plan(discover(residual(), rows()), deepen={"blocks": 3}, seed=4, growth=2)
    assert (plan.width, plan.numbers, plan.layouts, plan.sizes) == ((), (), {}, {})
    assert (plan.seed, plan.growth, plan.warnings) == (4, 2, ())
    assert len(plan.depth) == 1


def test_all_of_a_request_is_checked() -> None:
    table = discover(residual(), rows())
    with pytest.raises(DepthError):
        make_plan(table, {"blocks.0.up.weight[0]": 7}, {"blocks": Insert(at=[9])})
    with pytest.raises(SizeError):
        make_plan(table, {"blocks.0.up.weight[0]": 1}, {"blocks": 3})
