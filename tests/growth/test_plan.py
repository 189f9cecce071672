"""Plans as text, and back."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growkit import Insert, discover, make_plan
from growkit.errors import GrowkitError, PlanError
from growkit.growth.plan import Plan
from growkit.growth.resolve import resolve
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


DAMAGED = make_plan(
    discover(residual(), rows()), {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7}, {"blocks": Insert(at=[1])}
).to_json()


def _changed(**entries: object) -> str:
    return json.dumps(json.loads(_plan().to_json()) | entries)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("{", "text that is no plan"),
        ("[" * 100_000, "text that is no plan"),
        ("1" * 5000, "text that is no plan"),
        ("3", "a plan of format 'int'"),
        (_changed(format=99), "a plan of format 99"),
        (_changed(extra=1), "plan with the entries"),
        (json.dumps({"format": 3}), "plan with the entries"),
        (_changed(width=[{"axis": "a"}]), "plan.width[0] with the entries"),
        (_changed(fingerprint={}), "plan.fingerprint with the entries"),
        (_changed(layouts=3), "plan.layouts of type int"),
        (_changed(layouts={"a": 3}), "plan.layouts['a'] of type int"),
        (_changed(seed="3"), "plan.seed of type str"),
        (_changed(seed=True), "plan.seed of type bool"),
        (_changed(warnings="text"), "plan.warnings of type str"),
        (_changed(sizes={}), "a plan in which the layout of"),
        (_changed(layouts={"encoder.input_projection.weight": "(a"}), "a plan in which the layout of"),
        (_changed(layouts={"encoder.input_projection.weight": "4 5"}), "a plan in which the layout of"),
    ],
)
def test_text_that_is_no_plan_is_refused(text: str, given: str) -> None:
    with pytest.raises(PlanError) as error:
        Plan.from_json(text)
    assert error.value.given.startswith(given)


@pytest.mark.parametrize(
    ("path", "value", "given"),
    [
        (("width", 0, "method"), "coppy", "the step WidthStep("),
        (("width", 0, "old"), 5, "the step WidthStep("),
        (("width", 0, "new"), 3, "the step WidthStep("),
        (("width", 0, "axis"), "other", "the step WidthStep("),
        (("numbers", 0, "path"), "encoder.none", "the number 'encoder.none'"),
        (("depth", 0, "new"), 7, "'encoder.layers' gets 2 blocks, from 1 to 7"),
        (("depth", 0, "insertions", 0, "source"), 1, "a new block of 'encoder.layers'"),
        (("depth", 0, "insertions", 0, "position"), -1, "a new block of 'encoder.layers'"),
        (("depth", 0, "insertions", 0, "silenced"), {"none": 0.0}, "a new block of 'encoder.layers'"),
    ],
)
def test_plans_that_contradict_themselves_are_refused(path: tuple[str | int, ...], value: object, given: str) -> None:
    data: Any = json.loads(_plan().to_json())
    owner = data
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = value
    with pytest.raises(PlanError) as error:
        Plan.from_json(json.dumps(data))
    assert error.value.given.startswith(f"a plan in which {given}")


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Each list or object in a JSON value, and each of its keys."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_anywhere_is_refused_as_such(data: st.DataObject) -> None:
    """With one entry replaced or lost, a text is refused, or a plan that fits its model or is refused for it."""
    plan = json.loads(DAMAGED)
    owner, key = data.draw(st.sampled_from(_places(plan)))
    if data.draw(st.booleans()):
        del owner[key]
    else:
        owner[key] = data.draw(st.sampled_from([None, True, -1, 0, 9, 1.5, "", "a[0]", [], {}, [[]], ["x"]]))
    try:
        resolved = resolve(Plan.from_json(json.dumps(plan)), residual())
    except GrowkitError:  # any other error fails
        return
    assert set(resolved.edits) <= resolved.plan.layouts.keys()


def test_summary_by_hand() -> None:
    """first 32, blocks 16 + 63 + 64 and 16 + 45 + 48, last 18, and two blocks like the first and the last."""
    model = residual()
    plan = make_plan(
        discover(model, rows()), {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7}, {"blocks": Insert(at=[0, 2])}
    )
    bfloat16 = [name for name, _ in model.named_parameters() if "bias" in name]
    for name in bfloat16:
        model.get_parameter(name).data = model.get_parameter(name).data.bfloat16()
    summary = plan.summary(model)
    assert summary.parameters_before == sum(p.numel() for p in model.parameters())
    assert summary.parameters_after == 32 + 2 * (143 + 109) + 18
    biases_before, biases_after = 4 + 2 * (4 + 5 + 4) + 2, 8 + 2 * (8 + 7 + 8) + 2 * (8 + 5 + 8) + 2
    assert summary.bytes_before == 8 * (summary.parameters_before - biases_before) + 2 * biases_before
    assert summary.bytes_after == 8 * (554 - biases_after) + 2 * biases_after
    lines = str(summary).splitlines()
    assert lines[-3] == f"parameters {summary.parameters_before:,} -> 554"
    assert lines[-2] == f"bytes of parameters {summary.bytes_before:,} -> {summary.bytes_after:,}"
    assert lines[-1] == (
        "exact: first.weight[0] by copy, blocks.0.up.weight[0] by fresh, blocks by blocks that are the identity"
    )
    with pytest.raises(PlanError, match="a plan for another model"):
        plan.summary(residual(hidden=6))


def test_summary_leaves_out_the_norm_that_a_new_block_lacks() -> None:
    model = conformer()
    plan = make_plan(discover(model, utterances()), deepen={"layers": 2})
    block = sum(p.numel() for name, p in model.named_parameters() if "layers.0" in name)
    total = sum(p.numel() for p in model.parameters())
    assert plan.summary(model).parameters_after == total + block - 8
