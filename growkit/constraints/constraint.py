"""What a constraint is: it looks at the map of an axis and admits or refuses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from growkit.maps.axis_map import AxisMap


@dataclass(frozen=True)
class Refusal:
    """Why a map is not admitted, and what would be."""

    reason: str
    admitted: str
    """Maps or sizes that would do, in words; empty if none would."""
    next_step: str = "grow another axis"
    """What to do where none would."""


Constraint = Callable[[AxisMap], Refusal | None]
"""Refuses a map of the axis, or returns None where the function is preserved exactly."""


def anything(axis_map: AxisMap) -> Refusal | None:
    """Admits every map: the op is linear in the units, one by one."""
    return None


def never(reason: str, instead: str = "") -> Constraint:
    """Refuses every map, for `reason`; `instead` says what would make the growth possible."""

    def refuse(axis_map: AxisMap) -> Refusal | None:
        return Refusal(reason, "", f"{instead}; or grow another axis") if instead else Refusal(reason, "")

    return refuse
