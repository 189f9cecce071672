"""Whole copies, then units that are the mean of the old ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growkit.axes.expressions import Role
from growkit.maps.axis_map import NEW
from growkit.maps.methods.mean_pad import METHOD, averaged
from growkit.maps.methods.method import Fill


def test_five_units_of_two() -> None:
    found = averaged(2, 5)
    assert found.source == (0, 1, 0, 1, NEW)
    assert found.expand == (1.0, 1.0, 1.0, 1.0, 0.0)
    assert found.contract == (0.5, 0.5, 0.5, 0.5, 0.0)
    assert found.averaged
    assert (found.energy, found.total) == (2.0, 2.5)


def test_multiples_are_copies() -> None:
    assert averaged(3, 6).uniform
    assert not averaged(3, 6).averaged


@given(st.integers(1, 6), st.integers(0, 12))
def test_the_mean_stays(old: int, more: int) -> None:
    found = averaged(old, old + more)
    assert found.total == pytest.approx(found.new_size / old)
    assert found.self_dual


def test_writers_hold_the_mean_and_readers_are_free() -> None:
    assert METHOD.fills[Role.PRODUCES] is Fill.MEAN
    assert METHOD.fills[Role.BIAS] is Fill.ZERO  # after the norm, which makes the unit zero
    assert METHOD.fills[Role.CONSUMES] is Fill.RANDOM
