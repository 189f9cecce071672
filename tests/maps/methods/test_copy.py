"""Copies: in turn, counts balanced, old units first."""

from hypothesis import given
from hypothesis import strategies as st

from growkit.maps.methods.copy import METHOD


@given(st.integers(1, 9), st.integers(0, 20))
def test_counts_differ_by_one_at_most(old: int, more: int) -> None:
    made = METHOD.make(old, old + more)
    assert made.new_size == old + more
    assert made.source[:old] == tuple(range(old))
    assert max(made.counts) - min(made.counts) <= 1


def test_by_hand() -> None:
    made = METHOD.make(2, 5)
    assert made.source == (0, 1, 0, 1, 0)
    assert made.expand == (1.0,) * 5
    assert made.contract == (1 / 3, 1 / 2, 1 / 3, 1 / 2, 1 / 3)
