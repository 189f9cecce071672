"""Outputs keep their old units in front, as they are; inputs have the size of the data."""

from growkit.constraints.interface import CONSTRAINTS
from tests.constraints.maps import MAPS, admitted


def test_what_is_admitted() -> None:
    assert admitted(CONSTRAINTS["output"]) == {"x2", "3", "fresh", "scaled", "padded", "unequal shares"}
    assert admitted(CONSTRAINTS["input"]) == set()


def test_the_refusal_says_what_would_do() -> None:
    refusal = CONSTRAINTS["output"](MAPS["fresh first"])
    assert refusal is not None
    assert refusal.admitted == "old units first, unscaled"
