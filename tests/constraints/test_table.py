"""What an axis admits, what locks it, and how refusals read."""

from dataclasses import replace

import pytest

from growkit.axes.axis import Axis, Correction, Lock, Occurrence, Passage
from growkit.axes.expressions import Role
from growkit.axes.table import AxisTable
from growkit.constraints import activation, attention, conv, interface, norm, weights
from growkit.constraints.table import CONSTRAINTS, admits, annotate, check, constraint_of, refusals
from growkit.errors import AxisLockedError, SizeError
from growkit.maps.methods.table import METHODS
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
    (lock,) = annotate(AxisTable((axis("output beside others"),), {})).axes[0].locks
    assert lock.next_step.startswith("discover the model with the head that reads this output")


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


KINDS = [*CONSTRAINTS, "pointwise:relu", "pointwise:gelu", "pointwise:log", "gain:exp", "consumed:tanh",
         "weight_norm 1 0 0", "weight_norm 0 1 0", "weight_norm 1 1 0", "output beside others"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("correction", [{}, {"size": 0.5}, {"size": 1.0, "energy": -1.0}, {"total": -1.0, "size": 1.0}])
def test_what_an_axis_admits_does_not_depend_on_its_size(kind: str, correction: dict[str, float]) -> None:
    """So that all axes are tried with 4 units: 3 and 700, each as many as they are, and 4."""
    target = Occurrence("norm.weight", 0, 0, None, Role.GAIN)
    corrections = [Correction(target, "", **correction), Correction("norm.eps", "", **correction)] if correction else []
    few, many = (replace(axis(kind, corrections=tuple(corrections)), size=size) for size in (3, 700))
    assert [words.replace("700", "3") for words in admits(many)] == list(admits(few))
    for name, method in METHODS.items():
        for new in (1, 0):
            refused = [
                [refusal.reason for _, refusal in refusals(whole, method.make(old, 2 * old + new, ""))]
                for whole, old in ((many, 700), (many, 4), (few, 3))
            ]
            assert refused[0] == refused[1] == refused[2], (name, new)


def test_sizes_that_are_compared_are_tried_as_they_are() -> None:
    assert admits(replace(axis("at_most:1400"), size=700))[0].startswith("multiples of 700 (copy, fresh")
    assert admits(replace(axis("at_most:1401"), size=700))[0].startswith("any size (copy, fresh")
    assert admits(replace(axis("at_most:1399"), size=700))[0].startswith("up to 1399 units (copy, fresh")
    assert admits(replace(axis("at_most:700"), size=700)) == ()


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
