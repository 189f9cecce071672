"""Tensors that the traced run did not read, such as a mask embedding that only training uses."""

from __future__ import annotations

from collections.abc import Sequence

from growkit.axes.table import AxisTable
from growkit.growth.plan import WidthStep


def unread(table: AxisTable, steps: Sequence[WidthStep]) -> tuple[str, ...]:
    """The tensors that the run did not read that lie along what grows, or have a dim of a size that does."""
    sizes = {step.old for step in steps}
    grown = {step.axis for step in steps}
    held = {name: table.layouts[name] for name in table.unreached}
    return tuple(
        n for n, held_as in held.items() if sizes & set(held_as.shape(table.sizes)) or grown & set(held_as.axes())
    )


def unread_warnings(table: AxisTable, steps: Sequence[WidthStep]) -> tuple[str, ...]:
    """Which of them stay as they are, since no declared layout says that they lie along what grows."""
    grown = {step.axis for step in steps}
    alone = [name for name in unread(table, steps) if not grown & set(table.layouts[name].axes())]
    if not alone:
        return ()
    what = "was not read in the run and stays as it is" if len(alone) == 1 else "were not read and stay as they are"
    return (f"{', '.join(alone)} {what}; to let it grow along, declare it: {declared_as(alone[0], steps[0])}",)


def declared_as(tensor: str, step: WidthStep) -> str:
    """How to say that a tensor of one dim lies along an axis."""
    return f"layouts={{{tensor!r}: '{step.axis}:produces'}}"
