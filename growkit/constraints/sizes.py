"""Sizes that the code compares with a number: beyond it another branch runs, which was not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from growkit.constraints.constraint import Constraint, Refusal
from growkit.maps.axis_map import AxisMap


def at_most(bound: str) -> Constraint:
    """Admits maps to so many units or fewer."""

    def refuse(axis_map: AxisMap) -> Refusal | None:
        if axis_map.new_size <= int(bound):
            return None
        return Refusal(f"beyond {bound} units the forward pass takes another branch", f"at most {bound} units")

    return refuse


def other_than(size: str) -> Constraint:
    """Admits maps to any other number of units."""

    def refuse(axis_map: AxisMap) -> Refusal | None:
        if axis_map.new_size != int(size):
            return None
        return Refusal(f"at {size} units the forward pass takes another branch", f"other sizes than {size}")

    return refuse


def largest(kinds: Iterable[str]) -> int | None:
    """The number of units that passages of these kinds admit at most; None if they set no bound."""
    bounds = [int(kind.removeprefix("at_most:")) for kind in kinds if kind.startswith("at_most:")]
    return min(bounds, default=None)


FAMILIES: dict[str, Callable[[str], Constraint]] = {"at_most": at_most, "other_than": other_than}
"""Constraints by the first word of a passage, made from what follows it."""
