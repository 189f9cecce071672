"""Plans as text, and back."""

import json

import pytest

from growkit import Insert, discover, make_plan
from growkit.errors import PlanError
from growkit.growth.plan import Plan
from tests.growth.nets import conformer, residual, rows, utterances


def _plan() -> Plan:
    table = discover(conformer(), utterances())
    widen = {"model_dim": 2.0, "num_heads": 3, "layers.0.feed_forward1.ffn_dim": 7}
    return make_plan(table, widen, {"layers": 3}, seed=3, growth=1)


def test_json_gives_an_equal_plan() -> None:
    plan = _plan()
    assert plan.width
    assert plan.depth
    assert plan.numbers
    assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_holds_what_was_asked_for() -> None:
    plan = make_plan(discover(residual(), rows()), {"blocks.0.up.weight[0]": 7}, {"blocks": 3}, seed=5)
    assert [(s.axis, s.old, s.new, s.method) for s in plan.width] == [("blocks.0.up.weight[0]", 5, 7, "fresh")]
    assert plan.numbers[0].path == "blocks.0.up.out_features"
    assert [(n.path, n.old, n.new) for n in plan.numbers] == [
        ("blocks.0.up.out_features", 5, 7),
        ("blocks.0.down.in_features", 5, 7),
    ]
    assert set(plan.layouts) == {"blocks.0.up.weight", "blocks.0.up.bias", "blocks.0.down.weight"}
    assert plan.fingerprint.tensors["first.weight"] == (4, 3)
    assert plan.fingerprint.modules["blocks.1"] == "tests.growth.nets.Branch"
    assert plan.fingerprint.numbers["blocks.1.norm.normalized_shape#0"] == 4
    assert plan.seed == 5


def test_printing_shows_every_step() -> None:
    text = str(_plan())
    assert "encoder.input_projection.weight[0]: 4 -> 8 (copy)" in text
    assert "encoder.layers: 1 -> 3 blocks, identity at 1 (like block 0), 1 (like block 0)" in text


def test_warnings_are_printed() -> None:
    plan = make_plan(discover(residual(), rows()), {"first.weight[0]": 2.0})
    assert "warning: copies on 'first.weight[0]' stay equal" in str(plan)


def _changed(**entries: object) -> str:
    return json.dumps(json.loads(_plan().to_json()) | entries)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("{", "text that is no plan"),
        ("3", "a plan of format 'int'"),
        (_changed(format=99), "a plan of format 99"),
        (_changed(extra=1), "a plan with the entries"),
        (json.dumps({"format": 1}), "a plan with the entries"),
        (_changed(width=[{"axis": "a"}]), "text that is no plan"),
        (_changed(fingerprint={}), "text that is no plan"),
        (_changed(layouts=3), "text that is no plan"),
    ],
)
def test_text_that_is_no_plan_is_refused(text: str, given: str) -> None:
    with pytest.raises(PlanError) as error:
        Plan.from_json(text)
    assert error.value.given.startswith(given)


def test_summary_by_hand() -> None:
    """first 32, blocks 16 + 63 + 64 and 16 + 45 + 48, last 18, and two blocks like the first and the last."""
    model = residual()
    plan = make_plan(
        discover(model, rows()), {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7}, {"blocks": Insert(at=[0, 2])}
    )
    summary = plan.summary(model)
    assert summary.parameters_before == sum(p.numel() for p in model.parameters())
    assert summary.parameters_after == 32 + 2 * (143 + 109) + 18
    assert summary.flops_after == 2 * (24 + 2 * (56 + 56 + 40 + 40) + 16)
    assert f"parameters {summary.parameters_before:,} -> 554" in str(summary)
    assert "FLOPs per position" in str(summary)
    with pytest.raises(PlanError, match="a plan for another model"):
        plan.summary(residual(hidden=6))


def test_summary_leaves_out_the_norm_that_a_new_block_lacks() -> None:
    model = conformer()
    plan = make_plan(discover(model, utterances()), deepen={"layers": 2})
    block = sum(p.numel() for name, p in model.named_parameters() if "layers.0" in name)
    total = sum(p.numel() for p in model.parameters())
    assert plan.summary(model).parameters_after == total + block - 8
