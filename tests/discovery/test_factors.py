"""Exponents of what grows."""

import math
from fractions import Fraction

from growkit.discovery.factors import NONE, number_of, summed, times

SIZE, ENERGY = ("size", 1), ("energy", 1)


def test_exponents_add_up_and_those_that_cancel_are_gone() -> None:
    half = Fraction(1, 2)
    assert summed({SIZE: half}, {SIZE: half, ENERGY: Fraction(1)}) == {SIZE: Fraction(1), ENERGY: Fraction(1)}
    assert summed({SIZE: half}, {SIZE: -half}) == NONE
    assert times({SIZE: half, ENERGY: Fraction(2)}, Fraction(-1)) == {SIZE: -half, ENERGY: Fraction(-2)}


def test_what_is_no_number_is_nan() -> None:
    assert number_of(2) == 2.0
    assert all(math.isnan(number_of(value)) for value in (True, None, "1"))
