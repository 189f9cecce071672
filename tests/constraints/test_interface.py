"""Outputs keep their old units in front; inputs have the size of the data."""

from growkit.constraints.interface import CONSTRAINTS
from tests.constraints.maps import MAPS, admitted


def test_what_is_admitted() -> None:
    assert admitted(CONSTRAINTS["output"]) == {"fresh"}
    assert admitted(CONSTRAINTS["input"]) == set()


def test_the_refusal_says_what_would_do() -> None:
    refusal = CONSTRAINTS["output"](MAPS["x2"])
    assert refusal is not None
    assert refusal.admitted == "method 'fresh', to any larger size"
