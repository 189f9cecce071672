"""Parameters that the traced run never read: a growth must not leave one behind at the old size without a word."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from growkit.axes.expressions import leaves, size
from growkit.axes.names import pattern_of
from growkit.axes.table import AxisTable
from growkit.discovery.summary import UNREAD
from growkit.errors import NameLookupError, PlanError
from growkit.growth.plan import WidthStep


def check_left(table: AxisTable, steps: Iterable[WidthStep], leave: Collection[str] = ()) -> None:
    """Passes if no parameter that was never read may belong to what grows, but for those to leave alone.

    One may if a dim of it has as many units as a growing axis, or as a dim made of growing axes, and no declared
    layout says what it is. `leave`: names or globs of parameters that are to keep their sizes.

    Raises:
        PlanError: naming the parameters.
        NameLookupError: an entry of `leave` fits no parameter or buffer.
    """
    left = {name for glob in _as_names(leave) for name in _matching(glob, table)}
    grown = {step.axis: step for step in steps}
    sizes = {table.by_name[axis].size: axis for axis in grown}
    for layout in table.layouts.values():
        for dim in layout.dims:
            axes = [leaf.axis for leaf in leaves(dim) if leaf.axis in grown]
            if axes:
                sizes.setdefault(size(dim, table.sizes), axes[0])
    sizes.pop(1, None)
    found: dict[str, int] = {}
    for name in table.unread:
        for dim in table.layouts[name].dims:
            undeclared = any(lock.reason == UNREAD for leaf in leaves(dim) for lock in table.by_name[leaf.axis].locks)
            if undeclared and name not in left and size(dim, table.sizes) in sizes:
                found.setdefault(name, size(dim, table.sizes))
    if found:
        name, units = next(iter(found.items()))
        step = grown[sizes[units]]
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        raise PlanError(
            f"the run never read {', '.join(list(found)[:4])}{more}, of {units} units in one dim: as many as has what "
            f"grows with axis {step.axis!r} ({step.old} -> {step.new})",
            "parameters that the run reads, that a layout declares, or that leave= names",
            f"if {name} belongs to the axis, say so: discover(..., layouts={{{name!r}: ...}}) with a label that the "
            f"layout of another tensor has too; if it is to stay as it is, pass leave={list(found)!r}; or pass inputs "
            "that use it",
        )


def _as_names(leave: Collection[str]) -> Collection[str]:
    if isinstance(leave, str) or not all(isinstance(name, str) for name in leave):
        raise PlanError(f"leave={leave!r}", "a list of names or globs of parameters", "write leave=['mask_embedding']")
    return leave


def _matching(glob: str, table: AxisTable) -> list[str]:
    pattern = pattern_of(glob)
    found = [name for name in table.layouts if pattern.fullmatch(name)]
    if not found:
        raise NameLookupError(
            f"leave={glob!r}, which fits no parameter or buffer",
            f"names or globs of what the run never read: {', '.join(table.unread) or 'nothing here'}",
            "mend the name",
        )
    return found
