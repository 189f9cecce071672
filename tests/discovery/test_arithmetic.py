"""The arithmetic of sizes against that of ints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growkit.discovery import polynomials
from growkit.discovery.arithmetic import computed, undo_left, undo_right
from growkit.discovery.polynomials import Polynomial

OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))
OPERANDS = st.dictionaries(st.sampled_from([(), (0,), (1,), (0, 1)]), st.integers(1, 4), min_size=1, max_size=2)


def at(size: Polynomial, sizes: tuple[int, int]) -> int:
    """The value for given sizes of axes 0 and 1."""
    total = 0
    for monomial, coefficient in size.items():
        for serial in monomial:
            coefficient *= sizes[serial]
        total += coefficient
    return total


@pytest.mark.parametrize("sign", OPERATIONS)
@given(a=OPERANDS, b=OPERANDS, sizes=SIZES)
def test_what_is_said_of_a_result_holds_at_all_sizes(
    sign: str, a: Polynomial, b: Polynomial, sizes: tuple[int, int]
) -> None:
    found = computed(sign, a, b)
    if found is not None:
        assert at(found, sizes) == OPERATIONS[sign](at(a, sizes), at(b, sizes))


@pytest.mark.parametrize("sign", ["+", "-", "*", "//"])
@given(a=OPERANDS, b=OPERANDS, sizes=SIZES)
def test_an_operand_that_is_said_makes_the_result(
    sign: str, a: Polynomial, b: Polynomial, sizes: tuple[int, int]
) -> None:
    """`a` takes the place of the result, `b` that of the operand that is known."""
    left, right = undo_left(sign, a, b), undo_right(sign, a, b)
    operation, size, known = OPERATIONS[sign], at(a, sizes), at(b, sizes)
    if left is not None:
        assert operation(at(left, sizes), known) == size
    if right is not None and at(right, sizes) > 0:
        assert operation(known, at(right, sizes)) == size


def test_what_no_polynomial_says() -> None:
    axis = {(0,): 1}
    assert computed("//", axis, polynomials.constant(2)) is None
    assert computed("//", {(0,): 6}, polynomials.constant(2)) == {(0,): 3}
    assert computed("%", {(0,): 6}, polynomials.constant(2)) == polynomials.constant(0)
    assert undo_left("%", axis, axis) is undo_right("%", axis, axis) is None
    assert undo_left("*", axis, polynomials.constant(2)) is None
