"""The axes of the grown model against the plan."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from growkit import Insert, discover, grow, make_plan
from growkit.axes.axis import Axis
from growkit.axes.layouts import Layout
from growkit.axes.table import AxisTable
from growkit.errors import VerificationError
from growkit.growth.fingerprint import Fingerprint
from growkit.growth.plan import Plan, WidthStep
from growkit.growth.retrace import check_retrace
from tests.growth.nets import Residual, picture, residual, rows

UP = "blocks.0.up.weight"


@pytest.fixture(scope="module")
def grown() -> tuple[Plan, AxisTable]:
    model = residual()
    plan = make_plan(discover(model, rows()), {"blocks.0.up.weight[0]": 7})
    grow(model, plan)
    return plan, discover(model, rows())


def _with(table: AxisTable, layouts: Mapping[str, str]) -> AxisTable:
    return replace(table, layouts=dict(table.layouts) | {name: Layout.parse(text) for name, text in layouts.items()})


def test_the_planned_structure_passes(grown: tuple[Plan, AxisTable]) -> None:
    check_retrace(*grown, {})


def test_names_of_axes_may_change(grown: tuple[Plan, AxisTable]) -> None:
    plan, table = grown
    names = {"blocks.0.up.weight[0]": "hidden", "first.weight[0]": "stream"}
    axes = tuple(replace(axis, name=names.get(axis.name, axis.name)) for axis in table.axes)
    check_retrace(plan, replace(table, axes=axes, layouts={n: v.rename(names) for n, v in table.layouts.items()}), {})


def test_a_tensor_that_is_not_read_is_found(grown: tuple[Plan, AxisTable]) -> None:
    plan, table = grown
    with pytest.raises(VerificationError, match=f"{UP} is not read by the grown model"):
        check_retrace(plan, replace(table, unreached=(UP,)), {})
    with pytest.raises(VerificationError, match=r"blocks.1.up.bias of a new block is not read"):
        check_retrace(plan, replace(table, unreached=("blocks.1.up.bias",)), {}, ("blocks.1.up.bias",))


def test_another_size_is_found(grown: tuple[Plan, AxisTable]) -> None:
    plan, table = grown
    sizes = tuple(replace(axis, size=5) if axis.size == 7 else axis for axis in table.axes)
    with pytest.raises(VerificationError, match=r"was planned as \(7, 4\)"):
        check_retrace(plan, replace(table, axes=sizes), {})


@pytest.mark.parametrize(
    "text",
    [
        "'blocks.0.up.weight[0]':produces 'first.weight[0]':produces",
        "'blocks.0.up.weight[0]':produces 4",
        "('blocks.0.up.weight[0]' 1):produces 'first.weight[0]':consumes",
    ],
)
def test_another_structure_is_found(grown: tuple[Plan, AxisTable], text: str) -> None:
    plan, table = grown
    text = text.replace("'", "")
    with pytest.raises(VerificationError, match=f"{UP} was planned as"):
        check_retrace(plan, _with(table, {UP: text}), {})


def test_axes_that_became_one_are_found(grown: tuple[Plan, AxisTable]) -> None:
    plan, table = grown
    hidden = next(axis for axis in table.axes if axis.name == "blocks.0.up.weight[0]")
    axes = (*[a for a in table.axes if a is not hidden], replace(hidden, name="first.weight[0]"))
    joined = {name: layout.rename({hidden.name: "first.weight[0]"}) for name, layout in table.layouts.items()}
    with pytest.raises(VerificationError):
        check_retrace(plan, replace(table, axes=axes, layouts=joined), {})


class Fixed(Residual):
    """Runs two blocks, however many there are."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.blocks[1](self.blocks[0](self.first(x))))


def test_a_block_that_never_runs_is_found_and_taken_back() -> None:
    model = Fixed().double()
    before = picture(model)
    with pytest.raises(VerificationError, match="of a new block is not read"):
        grow(model, deepen={"blocks": Insert(at=[2])}, example_inputs=rows())
    assert picture(model) == before


class Remembers(nn.Module):
    """Keeps a reference of its own to a parameter, where nobody sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3, 4), nn.Linear(4, 2)
        weight = self.up.weight
        self.kept = lambda: weight

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)) + x @ self.kept().T)


def test_a_reference_of_its_own_is_found_and_taken_back() -> None:
    model = Remembers().double()
    before = picture(model)
    with pytest.raises(VerificationError, match="after the growth, Remembers raises RuntimeError"):
        grow(model, widen={"up.weight[0]": 6}, example_inputs=rows())
    assert picture(model) == before


def test_parts_of_other_sizes_than_planned_are_found() -> None:
    """A dim of two parts, 4 | 4, of which the second was to become 8 and the first did."""
    empty = Fingerprint({}, {}, {}, {})
    plan = Plan((WidthStep("b", 4, 8, "copy"),), (), (), {"w": "[a|b]:produces"}, {"a": 4, "b": 4}, empty)
    layouts = {"w": Layout.parse("[a|b]:produces")}
    right, wrong = ((Axis("a", a, "hidden", ()), Axis("b", 12 - a, "hidden", ())) for a in (4, 8))
    check_retrace(plan, AxisTable(right, layouts), {})
    with pytest.raises(VerificationError, match="a was planned with 4 units and is used with 8"):
        check_retrace(plan, AxisTable(wrong, layouts), {})
