"""From what a user asks for to a plan."""

from __future__ import annotations

from collections.abc import Collection

from growkit.axes.table import AxisTable
from growkit.errors import PlanError
from growkit.growth.arguments import check_mapping
from growkit.growth.corrections import float_steps, leaf_steps
from growkit.growth.depth import Deepen, depth_steps, depth_warnings
from growkit.growth.fingerprint import fingerprint_of
from growkit.growth.leave import check_left
from growkit.growth.plan import Plan
from growkit.growth.unread import unread
from growkit.growth.width import Methods, Widen, number_steps, warnings, width_steps


def make_plan(
    axes: AxisTable,
    widen: Widen | None = None,
    deepen: Deepen | None = None,
    *,
    method: Methods = None,
    multiple_of: int | None = None,
    seed: int = 0,
    growth: int = 0,
    leave: Collection[str] = (),
) -> Plan:
    """A checked plan; nothing is changed.

    Args:
        axes: the table that `discover` gave for the model as it is now.
        widen: axis name, glob or attribute -> new size (int) or factor (float).
        deepen: container path -> new number of blocks (int), or `Insert(at=[...])`.
        method: None (best for the kind of axis), a method for all, or {name: method}.
        multiple_of: what a factor gives is rounded up to a multiple of this.
        leave: names or globs of parameters that the run never read and that are to keep their sizes.
        seed, growth: key of what is drawn for new units; `growth` numbers the growths of one run.

    Raises:
        NameLookupError: a name is unknown or ambiguous.
        SizeError, AxisLockedError, TieError: a size cannot be reached, and what can.
        DepthError: blocks that cannot start as the identity.
        PlanError: nothing is asked for; or a parameter that the run never read may belong to what grows.
    """
    check_mapping("widen", widen, "name: size or factor")
    check_mapping("deepen", deepen, "container: length")
    if not isinstance(axes, AxisTable):
        raise PlanError(f"axes of type {type(axes).__name__}", "the table that discover gives", "call growkit.discover")
    if not widen and not deepen:
        raise PlanError(
            "a growth that asks for nothing",
            "widen={name: size or factor}, deepen={container: length}, or both",
            "print the axis table to see what can grow",
        )
    width = width_steps(axes, widen or {}, method, multiple_of)
    check_left(axes, width, leave)
    grown, changed = {step.axis for step in width}, leaf_steps(axes, width)
    scaled = {step.tensor for step in changed}
    layouts = {n: str(layout) for n, layout in axes.layouts.items() if n in scaled or grown & set(layout.axes())}
    involved = {axis for name in layouts for axis in axes.layouts[name].axes()}
    depth = depth_steps(axes, deepen or {})
    return Plan(
        width=width,
        depth=depth,
        numbers=number_steps(axes, width),
        floats=float_steps(axes, width),
        leaves=changed,
        shifts={name: shift for name, shift in axes.shifts.items() if name in layouts},
        layouts=layouts,
        sizes={axis.name: axis.size for axis in axes if axis.name in involved},
        fingerprint=fingerprint_of(axes),
        seed=seed,
        growth=growth,
        warnings=axes.warnings + warnings(axes, width) + depth_warnings(axes, depth),
        unread=unread(axes, width),
    )
