"""Is the grown model read as planned? The axes of a second trace against those of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from growkit.axes.expressions import Concat, Expression, Fixed, Leaf, Product
from growkit.axes.layouts import Layout
from growkit.axes.table import AxisTable
from growkit.errors import VerificationError
from growkit.growth.plan import Plan


def check_retrace(plan: Plan, table: AxisTable, renames: Mapping[str, str], new_parameters: Iterable[str] = ()) -> None:
    """Passes if every grown or new tensor is read, at its new sizes, with the structure that the plan has.

    Raises:
        VerificationError: naming the tensor.
    """
    sizes = dict(plan.sizes) | {step.axis: step.new for step in plan.width}
    for name in new_parameters:
        if name in table.unreached:
            raise _surprise(name, "of a new block is not read by the grown model")
    names: dict[str, str] = {}
    for old_name, text in plan.layouts.items():
        name, planned = renames.get(old_name, old_name), Layout.parse(text)
        if name in table.unreached:
            raise _surprise(name, "is not read by the grown model")
        found = table.layouts.get(name)
        if found is None or found.shape(table.sizes) != planned.shape(sizes):
            raise _surprise(name, f"was planned as {planned.shape(sizes)}")
        if not all(_same(a, b, names) for a, b in zip(planned.dims, found.dims, strict=True)):
            raise _surprise(name, f"was planned as '{planned}' and is used as '{found}'")
    for axis, found_axis in names.items():
        if sizes[axis] != table.sizes[found_axis]:
            raise _surprise(axis, f"was planned with {sizes[axis]} units and is used with {table.sizes[found_axis]}")
    if len(set(names.values())) != len(names):
        raise _surprise("one tensor or more", "now share an axis that were apart before")


def _same(planned: Expression, found: Expression, names: dict[str, str]) -> bool:
    """Whether both have one structure, up to the names of the axes, which `names` collects."""
    match planned, found:
        case Leaf(a, role), Leaf(b, other):
            return role is other and names.setdefault(a, b) == b
        case Fixed(a), Fixed(b):
            return a == b
        case (Product(a), Product(b)) | (Concat(a), Concat(b)):
            return len(a) == len(b) and all(_same(x, y, names) for x, y in zip(a, b, strict=True))
    return False


def _surprise(name: str, what: str) -> VerificationError:
    return VerificationError(
        f"after the growth, {name} {what}",
        "the structure of the plan at the new sizes",
        "a module keeps a reference or a number of its own: declare its layout, or leave this axis alone",
    )
