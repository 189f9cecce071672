"""What an axis admits, what locks it, and how refusals read."""

import pytest

from growkit.axes.axis import Axis, Lock, Occurrence, Passage
from growkit.axes.expressions import Role
from growkit.axes.table import AxisTable
from growkit.constraints import activation, attention, conv, interface, norm, weights
from growkit.constraints.table import CONSTRAINTS, admits, annotate, check, constraint_of
from growkit.errors import AxisLockedError, SizeError
from tests.constraints.maps import MAPS, admitted

FAMILIES = (activation, attention, conv, interface, norm, weights)


def axis(*kinds: str, **changes: object) -> Axis:
    made = Occurrence("fc.weight", 0, 0, None, Role.PRODUCES)
    return Axis("fc.weight[0]", 2, "hidden", (made,), tuple(Passage(k, "fc") for k in kinds), **changes)  # type: ignore[arg-type]


def test_every_family_is_in_the_table() -> None:
    assert set(CONSTRAINTS) == {kind for family in FAMILIES for kind in family.CONSTRAINTS}


def test_an_unknown_passage_admits_nothing() -> None:
    assert admitted(constraint_of("something new")) == set()
    assert admitted(constraint_of("pointwise:silu")) - admitted(constraint_of("pointwise:relu")) == {"padded"}


def test_parts_of_a_composite_dim_do_not_grow_without_the_others() -> None:
    for kind in ("layer_norm beside others", "output beside others"):
        assert admitted(constraint_of(kind)) == set()
    refusal = constraint_of("output beside others")(MAPS["fresh"])
    assert refusal is not None
    assert refusal.reason == "an output of the model holds other axes behind it, whose places would move"


def test_in_words() -> None:
    assert admits(axis("pointwise:relu")) == ("any size (copy, fresh, net2net)",)
    assert admits(axis("layer_norm", "residual")) == ("multiples of 2 (copy)",)
    assert admits(axis("pointwise:gelu")) == ("any size (copy, fresh, net2net, zero_pad)",)
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
    check(axis("layer_norm"), MAPS["x2"], "copy")
    with pytest.raises(SizeError) as caught:
        check(axis("pointwise:relu", "layer_norm"), MAPS["3"], "copy")
    assert "axis 'fc.weight[0]' from 2 to 3 by 'copy'" in caught.value.given
    assert caught.value.allowed.startswith("method 'copy' to a multiple of 2: 4, 6, 8, ...; or 'mean_pad'")
    locked = axis(locks=(Lock("an unknown op", "fc (fft)", "declare it"),))
    with pytest.raises(AxisLockedError, match=r"nothing: an unknown op \(at fc \(fft\)\)\n  next step: declare it"):
        check(locked, MAPS["x2"], "copy")
