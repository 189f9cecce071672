"""The axis table as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from growkit.axes.axis import Axis, Equality, Number
from growkit.axes.expressions import Expression, leaves
from growkit.axes.patterns import show

_WIDEST = 60


def show_table(
    axes: Sequence[Axis],
    numbers: Sequence[Number],
    equalities: Sequence[Equality],
    unreached: Sequence[str],
    warnings: Sequence[str],
) -> str:
    """One line an axis; then what ties axes, what the run never read, and warnings."""
    rows = [("axis", "size", "kind", "occurs in", "grows")]
    rows += [(a.name, str(a.size), a.kind, _occurrences(a), _growth(a)) for a in axes]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    lines += _ties(numbers, equalities)
    if unreached:
        lines += ["", "never read in the traced run: " + ", ".join(unreached)]
    if warnings:
        lines += ["", *(f"warning: {warning}" for warning in warnings)]
    return "\n".join(line.rstrip() for line in lines)


def _occurrences(axis: Axis) -> str:
    """`3 (consumes 1, produces 2), fc1.weight[0], ...`."""
    counts = Counter(o.role.value if o.role else "labels" for o in axis.occurrences)
    roles = ", ".join(f"{role} {count}" for role, count in sorted(counts.items()))
    return f"{len(axis.occurrences)} ({roles})"


def _growth(axis: Axis) -> str:
    if axis.locks:
        lock = axis.locks[0]
        text = f"locked: {lock.reason}" + (f" (at {lock.where})" if lock.where else "")
        more = len(axis.locks) - 1
        return _shortened(text) + (f" and {more} more" if more else "")
    if axis.admits:
        return "; ".join(axis.admits)
    return _shortened("passes " + ", ".join(sorted({p.kind for p in axis.passages}))) if axis.passages else "freely"


def _ties(numbers: Sequence[Number], equalities: Sequence[Equality]) -> list[str]:
    """Numbers that the run reads and that size several axes, and sizes that must stay equal."""
    lines = []
    for number in numbers:
        if number.read and len({leaf.axis for size in number.sizes for leaf in leaves(size)}) > 1:
            place = number.path if number.index is None else f"{number.path}[{number.index}]"
            lines.append(f"  {place} = {number.value} = " + " = ".join(map(_size, number.sizes)))
    lines += [f"  {' = '.join(map(_size, equality.sizes))} (at {equality.where})" for equality in equalities]
    return ["", "tied by numbers:", *lines] if lines else []


def _size(expression: Expression) -> str:
    return show([expression])


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
