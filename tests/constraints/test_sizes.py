"""Tests of the constraints of sizes that the code compares."""

from __future__ import annotations

import pytest

from growkit.constraints.sizes import largest
from growkit.constraints.table import constraint_of
from growkit.maps.methods.table import METHODS


@pytest.mark.parametrize(
    ("kind", "admitted"), [("at_most:6", [4, 5, 6]), ("other_than:5", [4, 6, 7, 8]), ("at_most:3", [])]
)
def test_sizes(kind: str, admitted: list[int]) -> None:
    for method in METHODS.values():
        made = {size: method.make(4, size, "key") for size in (4, 5, 6, 7, 8)}
        assert [size for size, axis_map in made.items() if constraint_of(kind)(axis_map) is None] == admitted


def test_the_refusal_says_what_would_do() -> None:
    refusal = constraint_of("at_most:6")(METHODS["fresh"].make(4, 7, ""))
    assert refusal is not None
    assert (refusal.reason, refusal.admitted) == (
        "beyond 6 units the forward pass takes another branch",
        "at most 6 units",
    )


def test_the_tightest_bound_counts() -> None:
    assert largest(["gate", "at_most:9", "other_than:3", "at_most:7"]) == 7
    assert largest(["gate", "other_than:3"]) is None
