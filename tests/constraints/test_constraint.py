"""The two constraints that look at no map."""

from growkit.constraints.constraint import Refusal, anything, never
from tests.constraints.maps import MAPS, admitted


def test_anything_and_never() -> None:
    assert admitted(anything) == set(MAPS)
    assert admitted(never("a reason")) == set()
    assert never("a reason")(MAPS["x2"]) == Refusal("a reason", "")
