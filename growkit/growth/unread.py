"""Tensors that the traced run did not read, such as a mask embedding that only training uses."""

from __future__ import annotations

from collections.abc import Sequence

from growkit.axes.table import AxisTable
from growkit.growth.plan import WidthStep


def unread(table: AxisTable, steps: Sequence[WidthStep]) -> tuple[str, ...]:
    """The tensors that the run did not read and that have a dim of a size which grows."""
    sizes = {step.old for step in steps}
    return tuple(name for name in table.unreached if sizes & set(table.layouts[name].shape(table.sizes)))


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
