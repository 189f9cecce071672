"""For which sizes a comparison that the code makes turns out as it does now."""

from __future__ import annotations

from math import gcd

from growkit.discovery.polynomials import Polynomial


def stays(sign: str, difference: Polynomial, now: int) -> bool:
    """Whether `difference sign 0` is the same at all larger sizes as at the present ones, where it is `now`."""
    grows, falls = _direction(difference)
    if sign in ("eq", "ne") and _never_zero(difference):
        return True
    if not (grows or falls) and not any(difference):
        return True
    if (grows and now > 0) or (falls and now < 0):
        return True
    return not now and sign in (("ge", "lt") if grows else ("le", "gt") if falls else ())


def bounded(sign: str, difference: Polynomial, now: int) -> tuple[int, str] | None:
    """The one axis on which `difference sign 0` depends, and the passage that says for which sizes it stays.

    `at_most:n`: up to n units; `other_than:n`: but for n units. None if it depends on more.
    """
    axes = {monomial for monomial in difference if monomial}
    if len(axes) != 1 or len(next(iter(axes))) != 1:
        return None
    (serial,) = next(iter(axes))
    slope, rest = abs(difference[(serial,)]), abs(difference.get((), 0))
    if now == 0:
        return None
    if sign in ("eq", "ne"):
        return (serial, f"other_than:{rest // slope}") if rest % slope == 0 else None
    reaches = sign in (("ge", "lt") if difference[(serial,)] > 0 else ("le", "gt"))  # changes where both are equal
    return serial, f"at_most:{(rest - reaches) // slope}"


def _never_zero(difference: Polynomial) -> bool:
    """Whether what it takes from a multiple of a number is no multiple of that number."""
    slopes = [coefficient for monomial, coefficient in difference.items() if monomial]
    return bool(slopes) and difference.get((), 0) % gcd(*slopes) != 0


def _direction(difference: Polynomial) -> tuple[bool, bool]:
    """Whether it grows with all axes, and whether it falls."""
    signs = {coefficient > 0 for monomial, coefficient in difference.items() if monomial}
    return signs == {True}, signs == {False}
