"""Ops and values of a run."""

import pytest

from growkit.discovery.operations import Op, Value, shift_of

X, Y = Value(1, -1), Value(2, -1)


def add(first: object, second: object, alpha: float = 1) -> Op:
    return Op("add", "here", {"self": first, "other": second, "alpha": alpha}, (3,))


def test_values_are_found_in_lists_too() -> None:
    assert list(Op("cat", "", {"tensors": [X, Y], "dim": 0}, (3,)).values()) == [X, Y]


@pytest.mark.parametrize(
    ("op", "shift"),
    [
        (add(X, 1.0), (X, 1.0)),
        (add(1, X), (X, 1.0)),
        (add(X, Y), None),
        (add(X, 1.0, alpha=2), None),
        (add(X, True), None),
        (Op("sub", "", {"self": X, "other": 1.0, "alpha": 1}, (3,)), None),
    ],
)
def test_a_number_beside_a_value(op: Op, shift: tuple[Value, float] | None) -> None:
    assert shift_of(op) == shift
