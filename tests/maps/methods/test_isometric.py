"""Copies whose squares sum to the square of their unit."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growkit.maps.methods.isometric import METHOD, weighted


def test_five_units_of_two() -> None:
    """Unit 0 three times, unit 1 twice."""
    found = weighted(2, 5)
    third, half = 1 / sqrt(3), 1 / sqrt(2)
    assert found.source == (0, 1, 0, 1, 0)
    assert found.expand == found.contract == pytest.approx((third, half, third, half, third))
    assert METHOD.fills == {}


@given(st.integers(1, 6), st.integers(0, 12))
def test_lengths_stay(old: int, more: int) -> None:
    found = weighted(old, old + more)
    assert found.energy == pytest.approx(1)
    assert found.self_dual
    assert not found.has_new
