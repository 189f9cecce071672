"""Outputs keep their old units in front, as they are; inputs have the size of the data."""

from growkit.constraints.interface import CONSTRAINTS, new_behind
from growkit.maps.axis_map import AxisMap
from tests.constraints.maps import MAPS, admitted


def test_what_is_admitted() -> None:
    assert admitted(CONSTRAINTS["output"]) == {"x2", "3", "fresh", "scaled", "padded", "unequal shares"}
    assert admitted(CONSTRAINTS["input"]) == set()


def test_what_only_the_caller_reads_gets_new_units_only() -> None:
    assert admitted(new_behind) == {"fresh", "padded"}


def test_the_refusal_says_what_would_do() -> None:
    refusal = CONSTRAINTS["output"](MAPS["fresh first"])
    assert refusal is not None
    assert refusal.admitted == "old units first, unscaled"


def test_outputs_stay_in_their_order() -> None:
    assert CONSTRAINTS["output"](AxisMap.copies(2, (1, 0, 1))) is not None
    assert CONSTRAINTS["output"](AxisMap.copies(2, (0, 0, 1))) is not None


def test_what_is_looked_up_by_number_gets_new_units_behind() -> None:
    assert admitted(CONSTRAINTS["lookup"]) == {"fresh", "padded"}
    refusal = CONSTRAINTS["lookup"](MAPS["fresh first"])
    assert refusal is not None
    assert refusal.reason == "its units are looked up by their number, and old ones must stay"
