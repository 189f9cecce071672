"""From the corrections of axes to the steps of a plan: 2 units that become 3, 4 that become 8."""

from math import sqrt

import pytest

from growkit.axes.axis import Axis, Correction, Occurrence
from growkit.axes.expressions import Role
from growkit.axes.table import AxisTable
from growkit.growth.corrections import float_steps, leaf_steps
from growkit.growth.plan import FloatStep, LeafStep, WidthStep

GAIN = Occurrence("norm.weight", 0, 0, None, Role.GAIN)
QUERY = Occurrence("q.weight", 0, 1, 1, Role.PRODUCES)
A = Axis(
    "a", 2, "stream", (GAIN,),
    corrections=(Correction(GAIN, "norm", size=-0.5, energy=0.5), Correction("eps", "norm", -1.0, 1.0, value=0.3)),
    silent=(QUERY,),
)  # fmt: skip
B = Axis("b", 4, "stream", (GAIN,), corrections=(Correction(GAIN, "norm", size=1.0), Correction(None, "norm", 0.0)))
TABLE = AxisTable((A, B), {})


def test_a_pad_of_zeros() -> None:
    """The energy stays and the size is 3 / 2: the gain takes (3 / 2) ** -0.5, eps 2 / 3 and queries zeros."""
    steps = [WidthStep("a", 2, 3, "zero_pad")]
    (step,) = float_steps(TABLE, steps)
    assert step == FloatStep("eps", 0.3, pytest.approx(0.2))
    assert leaf_steps(TABLE, steps) == (
        LeafStep("norm.weight", 0, 0, pytest.approx(sqrt(2 / 3)), False),
        LeafStep("q.weight", 0, 1, 1.0, True),
    )


def test_copies_leave_a_mean_square_and_make_nothing_silent() -> None:
    """Size and energy are both twice as large."""
    steps = [WidthStep("a", 2, 4, "copy")]
    assert float_steps(TABLE, steps) == leaf_steps(TABLE, steps) == ()


def test_factors_of_two_axes_on_one_place_multiply() -> None:
    steps = [WidthStep("a", 2, 3, "isometric"), WidthStep("b", 4, 8, "copy")]
    (step,) = leaf_steps(TABLE, steps)
    assert step == LeafStep("norm.weight", 0, 0, pytest.approx(2 * sqrt(2 / 3)), False)


def test_an_axis_that_stays_takes_nothing() -> None:
    assert leaf_steps(TABLE, []) == float_steps(TABLE, []) == ()
