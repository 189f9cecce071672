"""What the operations of ints make of sizes, and which operand makes them so."""

from __future__ import annotations

from growkit.discovery import polynomials
from growkit.discovery.polynomials import Polynomial


def computed(sign: str, a: Polynomial, b: Polynomial) -> Polynomial | None:
    """a (sign) b, None where it cannot be said for all sizes."""
    if sign in ("//", "%"):
        return _divided(sign, a, b)
    return polynomials.multiply(a, b) if sign == "*" else polynomials.add(a, b, 1 if sign == "+" else -1)


def _divided(sign: str, a: Polynomial, b: Polynomial) -> Polynomial | None:
    if not polynomials.axes_in(a) and not polynomials.axes_in(b):
        numbers = a.get((), 0), b.get((), 0)
        return polynomials.constant(numbers[0] // numbers[1] if sign == "//" else numbers[0] % numbers[1])
    quotient = polynomials.divide(a, b)
    return quotient if sign == "//" or quotient is None else polynomials.constant(0)


def undo_left(sign: str, size: Polynomial, b: Polynomial) -> Polynomial | None:
    """x of x (sign) b = size."""
    match sign:
        case "%":
            return None
        case "*":
            return polynomials.divide(size, b)
        case "//":
            return polynomials.multiply(size, b)
        case "+":
            return polynomials.add(size, b, -1)
    return polynomials.add(size, b)


def undo_right(sign: str, size: Polynomial, a: Polynomial) -> Polynomial | None:
    """x of a (sign) x = size."""
    match sign:
        case "%":
            return None
        case "*":
            return polynomials.divide(size, a)
        case "//":
            return polynomials.divide(a, size)
        case "+":
            return polynomials.add(size, a, -1)
    return polynomials.add(a, size, -1)
