"""Axes that the caller sees: inputs, outputs, and what inputs pick from by number, such as a vocabulary."""

from __future__ import annotations

from growkit.constraints.constraint import Constraint, Refusal, never
from growkit.maps.axis_map import NEW, AxisMap


def old_first(axis_map: AxisMap) -> Refusal | None:
    """Admits maps that keep the old units in front, unscaled: old outputs stay where they are."""
    old = axis_map.old_size
    if axis_map.source[:old] == tuple(range(old)) and axis_map.expand[:old] == (1.0,) * old:
        return None
    return Refusal("it is an output of the model, and old outputs must stay", "old units first, unscaled")


def new_behind(axis_map: AxisMap) -> Refusal | None:
    """Admits new units after the old ones, and no copies: what a loss would make of them is not known.

    Only where nothing inside the model reads the axis: there copies have no use.
    """
    copied = [unit for unit in axis_map.source[axis_map.old_size :] if unit != NEW]
    if old_first(axis_map) is None and not copied:
        return None
    return Refusal("it is an output of the model, and old outputs must stay", "old units first, then new ones")


def known_by_number(axis_map: AxisMap) -> Refusal | None:
    """Admits new units after the old ones, which keep their numbers."""
    if new_behind(axis_map) is None:
        return None
    return Refusal("its units are looked up by their number, and old ones must stay", "old units first, then new ones")


CONSTRAINTS: dict[str, Constraint] = {
    "input": never("it is an input of the model: its size is that of the data"),
    "output": old_first,
    "lookup": known_by_number,
}
