"""Which maps an axis admits, passage by passage; expectations written by hand from the algebra."""

import pytest

from growkit.axes.axis import Axis, Lock, Occurrence, Passage
from growkit.axes.expressions import Role
from growkit.axes.table import AxisTable
from growkit.constraints.table import CONSTRAINTS, admits, annotate, check, constraint_of
from growkit.errors import AxisLockedError, SizeError
from growkit.maps.axis_map import NEW, AxisMap

COPIES_X2 = AxisMap.copies(2, (0, 1, 0, 1))
COPIES_3 = AxisMap.copies(2, (0, 1, 0))
FRESH = AxisMap.copies(2, (0, 1, NEW))
SCALED = AxisMap(2, (0, 1, 0, 1), (1.0, 1.0, 2.0, 2.0), (0.5, 0.5, 0.25, 0.25))
FRESH_FIRST = AxisMap.copies(2, (NEW, 0, 1))

ADMITTED = {
    "pointwise:silu": {"x2", "3", "fresh", "fresh first"},
    "gate": {"x2", "3", "fresh", "fresh first"},
    "residual": {"x2", "3", "fresh", "fresh first", "scaled"},
    "layer_norm": {"x2"},
    "rms_norm": {"x2"},
    "reduce:mean": {"x2"},
    "batch_norm": {"x2", "3", "fresh", "fresh first"},
    "per_head": {"x2", "3", "fresh", "fresh first"},
    "contracted_activations": set(),
    "softmax": set(),
    "size_as_number": set(),
    "depthwise_conv": {"x2", "3", "fresh", "fresh first", "scaled"},
    "input": set(),
    "output": {"fresh"},
    "something new": set(),
}
MAPS = {"x2": COPIES_X2, "3": COPIES_3, "fresh": FRESH, "fresh first": FRESH_FIRST, "scaled": SCALED}


def axis(*kinds: str, **changes: object) -> Axis:
    made = Occurrence("fc.weight", 0, 0, None, Role.PRODUCES)
    return Axis("fc.weight[0]", 2, "hidden", (made,), tuple(Passage(k, "fc") for k in kinds), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ADMITTED)
def test_what_each_passage_admits(kind: str) -> None:
    assert {name for name, m in MAPS.items() if constraint_of(kind)(m) is None} == ADMITTED[kind]


def test_every_passage_is_in_the_table_above() -> None:
    assert set(CONSTRAINTS) <= set(ADMITTED)


def test_in_words() -> None:
    assert admits(axis("pointwise:relu")) == ("copy to any size", "fresh to any size")
    assert admits(axis("layer_norm", "residual")) == ("copy to a multiple of 2",)
    assert admits(axis("output")) == ("fresh to any size",)
    assert admits(axis("softmax")) == ()


def test_axes_that_admit_nothing_are_locked_with_the_reason() -> None:
    free, stuck = annotate(AxisTable((axis("gate"), axis("contracted_activations")), {})).axes
    assert not free.locked
    assert [lock.reason for lock in stuck.locks] == [
        "two activations are contracted over it, so copies would count twice in the sum"
    ]


def test_axes_that_no_parameter_produces_are_locked() -> None:
    """The width of a table of sinusoids: one weight reads it, nothing makes it wider."""
    read = Occurrence("position.weight", 1, 0, None, Role.CONSUMES)
    (table,) = annotate(AxisTable((Axis("position.weight[1]", 4, "fixed", (read,)),), {})).axes
    assert table.admits == ()
    assert [lock.reason for lock in table.locks] == ["no parameter produces it: its units are made in the forward pass"]


def test_refusals_say_what_would_do() -> None:
    check(axis("layer_norm"), COPIES_X2, "copy")
    with pytest.raises(SizeError) as caught:
        check(axis("pointwise:relu", "layer_norm"), COPIES_3, "copy")
    assert "axis 'fc.weight[0]' from 2 to 3 by 'copy'" in caught.value.given
    assert caught.value.allowed == "method 'copy' to a multiple of 2: 4, 6, 8, ..."
    locked = axis(locks=(Lock("an unknown op", "fc (fft)", "declare it"),))
    with pytest.raises(AxisLockedError, match=r"nothing: an unknown op \(at fc \(fft\)\)\n  next step: declare it"):
        check(locked, COPIES_X2, "copy")
