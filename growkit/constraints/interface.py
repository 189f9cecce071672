"""Axes that the caller sees: inputs and outputs of the whole model."""

from __future__ import annotations

from growkit.constraints.constraint import Constraint, Refusal, never
from growkit.maps.axis_map import NEW, AxisMap


def appended(axis_map: AxisMap) -> Refusal | None:
    """Admits only new units after the old ones, so that old outputs stay as they are."""
    old = range(axis_map.old_size)
    prefix = axis_map.source[: axis_map.old_size] == tuple(old)
    if prefix and all(unit == NEW for unit in axis_map.source[axis_map.old_size :]):
        return None
    return Refusal("it is an output of the model, and old outputs must stay", "method 'fresh', to any larger size")


CONSTRAINTS: dict[str, Constraint] = {
    "input": never("it is an input of the model: its size is that of the data"),
    "output": appended,
}
