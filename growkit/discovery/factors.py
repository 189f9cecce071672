"""Factors that an axis brings in when it grows: powers of what grows with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

Symbol = tuple[str, int]
"""`size`, `energy` or `total`, and the axis by the serial number of its root: see `Correction`."""
Factor = dict[Symbol, Fraction]
"""Exponents of the symbols."""
NONE: Factor = {}
"""The factor 1."""


def summed(first: Factor, second: Factor) -> Factor:
    """The factor of a product: exponents add up."""
    found = dict(first)
    for symbol, power in second.items():
        found[symbol] = found.get(symbol, Fraction(0)) + power
    return {symbol: power for symbol, power in found.items() if power}


def times(factor: Factor, by: Fraction) -> Factor:
    """The factor of a power."""
    return {symbol: power * by for symbol, power in factor.items()}


def number_of(value: Any) -> float:
    """A number that an op was given; nan for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")
