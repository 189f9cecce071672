"""Zeros after the old units, read at random."""

from growkit.axes.expressions import Role
from growkit.maps.methods.method import Fill
from growkit.maps.methods.zero_pad import METHOD


def test_by_hand() -> None:
    made = METHOD.make(2, 4, "")
    assert made.source == (0, 1, -1, -1)
    assert made.expand == made.contract == (1.0, 1.0, 0.0, 0.0)
    assert made.padded


def test_every_role_has_a_fill_and_not_both_sides_are_zero() -> None:
    assert set(METHOD.fills) == set(Role)
    assert METHOD.fills[Role.PRODUCES] is Fill.ZERO
    assert METHOD.fills[Role.CONSUMES] is Fill.RANDOM
