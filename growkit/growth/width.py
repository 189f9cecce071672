"""Which axes grow, to which sizes, by which methods: from a user's `widen` to width steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil, isfinite

from growkit.axes.axis import Axis
from growkit.axes.expressions import Expression, Role, leaves, size
from growkit.axes.table import AxisTable
from growkit.constraints.table import changes_floats, check, refusals
from growkit.errors import PlanError, SizeError, TieError
from growkit.growth.plan import NumberStep, WidthStep
from growkit.growth.unread import unread_warnings
from growkit.maps.methods.table import method as method_of

MOST_UNITS = 2**24
"""More units than any axis has, and few enough to list."""

Widen = Mapping[str, int | float]
Methods = str | Mapping[str, str] | None


def width_steps(
    table: AxisTable, widen: Widen, methods: Methods = None, multiple_of: int | None = None
) -> tuple[WidthStep, ...]:
    """The steps that a user asked for, checked: names, sizes, locks, constraints, ties.

    Args:
        table: the axes of the model.
        widen: name -> new size (int) or factor (float).
        methods: one method for all, or {name: method}; None takes the best for the kind of axis.
        multiple_of: what a factor gives is rounded up to a multiple of this.

    Raises:
        NameLookupError, SizeError, AxisLockedError, TieError: see there.
    """
    sizes = _new_sizes(table, widen, multiple_of)
    _check_ties(table, sizes)
    asked = _asked_methods(table, methods, sizes)
    chosen: dict[str, str] = {}
    # a stream takes the method that suits the axes that read it, so it comes last
    for axis in sorted((table.by_name[name] for name in sizes), key=lambda axis: axis.kind == "stream"):
        name = asked.get(axis.name) or _default_method(table, axis, sizes[axis.name], chosen)
        check(axis, method_of(name).make(axis.size, sizes[axis.name], ""), name)
        chosen[axis.name] = name
    return tuple(WidthStep(name, table.by_name[name].size, new, chosen[name]) for name, new in sizes.items())


def number_steps(table: AxisTable, steps: tuple[WidthStep, ...]) -> tuple[NumberStep, ...]:
    """The ints that follow the growing axes."""
    sizes = table.sizes | {step.axis: step.new for step in steps}
    return tuple(
        NumberStep(number.path, number.index, number.value, new)
        for number in table.numbers
        if (new := size(number.sizes[0], sizes)) != number.value
    )


def warnings(table: AxisTable, steps: tuple[WidthStep, ...]) -> tuple[str, ...]:
    """What a user should know: copies that nothing will ever tell apart, and outputs that become larger."""
    fresh = {step.axis for step in steps if step.method == "fresh"}
    found = [
        f"copies on {step.axis!r} stay equal to each other: no axis that reads them grows by 'fresh'"
        for step in steps
        if step.method == "copy" and not _read_by(table, step.axis, fresh)
    ]
    for step in steps:
        if any(passage.kind == "output" for passage in table.by_name[step.axis].passages):
            output = f"{step.axis!r} is an output of the model: {step.new} units, the first {step.old} as before"
            if step.method in ("copy", "net2net"):
                output += "; gradients are those of a reader that shares its weights among the copies"
            found.append(output)
    return tuple(found) + unread_warnings(table, steps)


def _new_sizes(table: AxisTable, widen: Widen, multiple_of: int | None) -> dict[str, int]:
    _check_multiple(multiple_of)
    sizes: dict[str, int] = {}
    for name, wanted in widen.items():
        group = table[name]
        changed = False
        for axis in group:
            new = _size(name, axis, wanted, multiple_of)
            if sizes.get(axis.name, new) != new:
                raise SizeError(
                    f"axis {axis.name!r} is asked to grow to {sizes[axis.name]} and to {new} (by {name!r})",
                    "one size per axis",
                    "name each axis once in widen",
                )
            if new != axis.size:
                sizes[axis.name] = new
                changed = True
        if not changed:
            raise SizeError(
                f"{name!r}: {wanted!r} changes nothing, the size is {group[0].size} already",
                f"a size above {group[0].size}, or a factor above 1.0",
                "drop this entry of widen, or ask for more",
            )
    return sizes


def _size(name: str, axis: Axis, wanted: int | float, multiple_of: int | None) -> int:
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        raise SizeError(
            f"{name!r}: {wanted!r} of type {type(wanted).__name__}",
            "an int, the new size, or a float, the factor",
            f"write for instance {2 * axis.size} or 2.0",
        )
    if isinstance(wanted, float):
        exact = axis.size * wanted
        new = round(exact) if isfinite(exact) else 0
        if multiple_of is not None and isfinite(exact):
            # a factor such as 1.1 is not exact in binary: 1.1 * 10 must not round up to the next multiple
            exact = new = multiple_of * ceil(round(exact / multiple_of, 9))
        if abs(exact - new) > 1e-6 or not isfinite(exact):
            near = [size for size in (new - 1, new, new + 1) if size > axis.size and abs(size - exact) < 1]
            raise SizeError(
                f"{name!r}: factor {wanted!r} of axis {axis.name!r} ({axis.size} units) gives {exact:g}",
                "a factor that gives a whole number, or any with multiple_of=...",
                f"ask for a size instead: {' or '.join(map(str, near or [2 * axis.size]))}",
            )
    else:
        new = wanted
    if new > MOST_UNITS:
        raise SizeError(
            f"{name!r}: {wanted!r} gives axis {axis.name!r} {new:,} units",
            f"at most {MOST_UNITS:,}",
            "an int is the new size, a float the factor: was a factor meant?",
        )
    if new < axis.size:
        factor = f"; for a factor write {float(wanted)!r}" if isinstance(wanted, int) and 1 < wanted <= 16 else ""
        raise SizeError(
            f"{name!r}: {wanted!r} would shrink axis {axis.name!r} from {axis.size} to {new}",
            f"sizes above {axis.size}: growkit only grows",
            f"ask for a larger size{factor}",
        )
    return new


_MOST_TRIES = 50
"""What follows from a tie may be had in several ways; more tries than this, and some for each tie, are not made."""


def _check_multiple(multiple_of: int | None) -> None:
    if multiple_of is None:
        return
    if isinstance(multiple_of, bool) or not isinstance(multiple_of, int) or multiple_of < 1:
        raise SizeError(f"multiple_of={multiple_of!r}", "an int from 1 on", "write for instance multiple_of=8")


def _asked_methods(table: AxisTable, methods: Methods, grown: Collection[str]) -> dict[str, str]:
    if methods is None:
        return {}
    if not isinstance(methods, str | Mapping):
        raise PlanError(
            f"method={methods!r} of type {type(methods).__name__}",
            "None, the name of a method, or a mapping {name: method}",
            "write for instance method='copy'",
        )
    if isinstance(methods, str):
        method_of(methods)
        return {axis.name: methods for axis in table}
    asked: dict[str, str] = {}
    for name, method in methods.items():
        method_of(method)
        axes = [axis.name for axis in table[name] if axis.name in grown]
        if not axes:
            raise PlanError(
                f"method {method!r} for {name!r}, which does not grow",
                f"methods for what widen names: {', '.join(map(repr, grown))}",
                "drop this entry of method, or name the axis in widen too",
            )
        for axis in axes:
            if asked.setdefault(axis, method) != method:
                raise PlanError(
                    f"methods {asked[axis]!r} and {method!r} for axis {axis!r}",
                    "one method per axis",
                    "name each axis once in method",
                )
    return asked


def _default_method(table: AxisTable, axis: Axis, new: int, chosen: Mapping[str, str]) -> str:
    fresh = {name for name, method in chosen.items() if method == "fresh"}
    copy_first = axis.kind == "stream" and _read_by(table, axis.name, fresh)
    names = ("copy", "fresh") if copy_first else ("fresh", "copy")
    # for axes that statistics are taken over, where the size is no multiple; floats of norms rather stay: what builds
    # the model anew from its sizes makes them as they were
    scaled = ("rms_pad", "std_pad") if changes_floats(axis) else ()
    for name in (*names, *scaled, "zero_pad", "mean_pad"):
        if not axis.locked and not any(refusals(axis, method_of(name).make(axis.size, new, ""))):
            return name
    return "copy"  # refused as well, with the sizes that would do


def _read_by(table: AxisTable, axis: str, readers: set[str]) -> bool:
    """Whether some tensor consumes `axis` and produces one of the readers."""
    for layout in table.layouts.values():
        roles = {(leaf.axis, leaf.role) for leaf in layout}
        if (axis, Role.CONSUMES) in roles and any((reader, Role.PRODUCES) in roles for reader in readers):
            return True
    return False


def _check_ties(table: AxisTable, sizes: Mapping[str, int]) -> None:
    ties = [(f"the number {n.path!r}", n.sizes) for n in table.numbers]
    ties += [(f"{e.where} (equal parts)", e.sizes) for e in table.equalities]
    after = {**table.sizes, **sizes}
    for what, expressions in ties:
        if _broken(expressions, after):
            axes = sorted({leaf.axis for expression in expressions for leaf in leaves(expression)})
            blocked = [f"{a!r} cannot, {lock.reason}" for a in axes for lock in table.by_name[a].locks[:1]]
            complete = _completed(table, [expressions for _, expressions in ties], sizes)
            raise TieError(
                f"{what} sizes {', '.join(repr(axis) for axis in axes)}, which would become "
                + ", ".join(str(after[axis]) for axis in axes),
                "growing them together, so that the number stays true",
                f"pass widen={complete!r}"
                if complete
                else f"leave these axes as they are: {'; '.join(blocked) or 'the others cannot follow'}",
            )


def _broken(expressions: Iterable[Expression], sizes: Mapping[str, int]) -> bool:
    return len({size(expression, sizes) for expression in expressions}) > 1


def _completed(
    table: AxisTable, ties: Sequence[tuple[Expression, ...]], sizes: Mapping[str, int]
) -> dict[str, int] | None:
    """The sizes, with further axes grown so that every tie holds; None if that cannot be."""
    waiting = [dict(sizes)]
    for _ in range(_MOST_TRIES + 3 * len(ties)):
        if not waiting:
            break
        found = waiting.pop()
        after = table.sizes | found
        tied = next((tie for tie in ties if _broken(tie, after)), None)
        if tied is None:
            return found
        ahead = max(tied, key=lambda expression: size(expression, after))
        goal = size(ahead, after)
        behind = next(expression for expression in tied if size(expression, after) < goal)
        free = [a for leaf in leaves(behind) if (a := leaf.axis) not in found and not table.by_name[a].locked]
        growths = [{axis: after[axis] * goal // size(behind, after)} for axis in free]
        growths += [{axis: after[axis] + goal - size(behind, after)} for axis in free]
        waiting += [found | growth for growth in growths[::-1] if not _broken((ahead, behind), after | growth)]
    return None
