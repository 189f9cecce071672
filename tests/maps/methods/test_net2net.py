"""Random copies, balanced, with unequal positive shares."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from growkit.maps.methods.net2net import METHOD


@given(st.integers(1, 9), st.integers(0, 20), st.text(max_size=5))
def test_laws(old: int, more: int, key: str) -> None:
    made = METHOD.make(old, old + more, key)
    assert made.source[:old] == tuple(range(old))
    assert made.expand == (1.0,) * (old + more)
    assert max(made.counts) - min(made.counts) <= 1
    for unit, share in zip(made.source, made.contract, strict=True):
        # weights lie in [0.5, 1.5), so no share falls below a third of an equal one
        assert share >= 1 / (3 * made.counts[unit])
    assert made == METHOD.make(old, old + more, key)


def test_keys_differ() -> None:
    assert METHOD.make(8, 12, "a").source != METHOD.make(8, 12, "b").source
    assert METHOD.make(2, 4, "a").contract != METHOD.make(2, 4, "b").contract


def test_shares_of_one_unit_are_unequal() -> None:
    made = METHOD.make(3, 6, "")
    assert Counter(made.source) == {0: 2, 1: 2, 2: 2}
    assert len(set(made.contract)) == 6
    assert not made.uniform
