"""What each setting may be."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping

from growkit.errors import SettingsError
from growkit.train.split_batch import checked_time_dims

Check = Callable[[str, object], None]
"""Refuses a value, given the name of its setting, by a SettingsError."""


def number(allowed: str, *, lowest: float = -math.inf, above: float = -math.inf, below: float = math.inf) -> Check:
    """A check for finite numbers in a range, and None."""

    def check(name: str, value: object) -> None:
        if value is None:
            return
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise SettingsError(f"{name}={value!r} ({type(value).__name__})", allowed, "give a number")
        if not (abs(value) <= sys.float_info.max and value >= lowest and above < value < below):
            raise SettingsError(f"{name}={value!r}", allowed, "give a value in this range")

    return check


def count(*, lowest: int = 1, or_none: bool = True) -> Check:
    """A check for whole numbers from `lowest` on, and None if `or_none`."""
    allowed = f"a whole number >= {lowest}" + (", or None" if or_none else "")

    def check(name: str, value: object) -> None:
        if value is None and or_none:
            return
        if not isinstance(value, int) or isinstance(value, bool):
            raise SettingsError(f"{name}={value!r} ({type(value).__name__})", allowed, "give an int")
        if value < lowest:
            raise SettingsError(f"{name}={value!r}", allowed, "give a value in this range")

    return check


def one_of(*choices: object) -> Check:
    """A check for one of these values."""

    def check(name: str, value: object) -> None:
        if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
            raise SettingsError(f"{name}={value!r}", " or ".join(map(repr, choices)), "give one of them")

    return check


def text(name: str, value: object) -> None:
    """A check for texts, and None."""
    if value is not None and not isinstance(value, str):
        raise SettingsError(f"{name}={value!r} ({type(value).__name__})", "a text, or None", "give a text")


def time_dims(name: str, value: object) -> None:
    """A check for declared time axes."""
    if value is not None:
        checked_time_dims(value)


def user(value: object, taken: Iterable[str]) -> None:
    """Refuses keys of the user's own that are no names, or that are taken.

    Raises: SettingsError.
    """
    taken = list(taken)
    if not isinstance(value, Mapping):
        raise SettingsError(f"user={value!r} ({type(value).__name__})", "a dict from name to value", "give a dict")
    for key in value:
        if not isinstance(key, str) or key in taken:
            raise SettingsError(
                f"the key {key!r} in user", f"any name but {', '.join(taken)}", "give your setting another name"
            )
