"""Constraints by passage: may this axis grow by this map?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from math import isclose
from types import MappingProxyType
from typing import Any

from growkit.axes.axis import Axis, Correction, Lock, Passage
from growkit.axes.expressions import Role
from growkit.axes.reading import BESIDE_OTHERS
from growkit.axes.table import AxisTable
from growkit.constraints import activation, attention, conv, interface, norm, sizes, weights
from growkit.constraints.constraint import Constraint, Refusal, never
from growkit.errors import AxisLockedError, SizeError
from growkit.maps.axis_map import AxisMap
from growkit.maps.methods.table import METHODS

CONSTRAINTS = MappingProxyType(
    {
        kind: constraint
        for family in (activation, attention, conv, interface, norm, weights)
        for kind, constraint in family.CONSTRAINTS.items()
    }
)


@cache
def constraint_of(kind: str) -> Constraint:
    """The constraint of a passage; an unknown passage admits nothing."""
    if kind.endswith(BESIDE_OTHERS):
        whole = kind.removesuffix(BESIDE_OTHERS)
        if whole == "output":
            return never(
                "an output of the model holds other axes behind it, whose places would move",
                "discover the model with the head that reads this output, so that it is none",
            )
        if whole == "lookup":
            return never("its units are looked up by their number, and other axes behind it would get other numbers")
        return never(f"{whole} takes it together with other axes beside it, so that it cannot grow alone")
    if kind.startswith("pointwise:"):
        return activation.pointwise(kind.removeprefix("pointwise:"))
    family, _, rest = kind.replace(" ", ":", 1).partition(":")
    for families in (weights.FAMILIES, sizes.FAMILIES):
        if family in families:
            return families[family](rest)
    return CONSTRAINTS.get(kind) or never(f"nothing is known about growth through {kind!r}")


def refusals(axis: Axis, axis_map: AxisMap) -> Iterator[tuple[Passage, Refusal]]:
    """Every passage on the axis that does not admit the map, with its refusal."""
    for passage in axis.passages:
        outermost = passage.kind == axis.kind == "output"
        refusal = (interface.new_behind if outermost else constraint_of(passage.kind))(axis_map)
        if refusal is not None:
            yield passage, refusal
    if axis_map.averaged and not any(passage.kind == "centred" for passage in axis.passages):
        places = [passage for passage in axis.passages if passage.kind == "uncentred"]
        where = (places or [*axis.passages, Passage("uncentred", axis.name)])[0]
        yield where, Refusal("units that are the mean of others would be read here, not behind a layer norm", "")
    if axis_map.averaged and any(o.role is Role.PRODUCES and o.factor is not None for o in axis.occurrences):
        yield (
            Passage("uncentred", axis.name),
            Refusal("it shares a dim of a parameter with other axes, over which no mean of its units can be taken", ""),
        )
    for correction in axis.corrections:
        factor = correction_factor(correction, axis_map)
        if factor is None or (correction.target is None and not isclose(factor, 1.0, rel_tol=1e-12)):
            yield (
                Passage("correction", correction.where),
                Refusal("its size enters the computation as a factor that no parameter can take over", _UNCHANGED),
            )


_UNCHANGED = "methods that leave this factor at 1, if there are any: multiples by 'copy' for a mean"


def correction_factor(correction: Correction, axis_map: AxisMap) -> float | None:
    """The factor that the target of a correction takes if its axis grows by this map."""
    factor = correction.factor(axis_map.new_size / axis_map.old_size, axis_map.energy, axis_map.total)
    return 1.0 if factor is not None and isclose(factor, 1.0, rel_tol=1e-12) else factor


def changes_floats(axis: Axis) -> bool:
    """Whether floats of modules, such as the eps of a norm, follow its size by methods that do not scale its units."""
    return any(isinstance(correction.target, str) for correction in axis.corrections)


_UNMADE = Lock(
    "no parameter produces it: its units are made in the forward pass",
    "the forward pass",
    "grow another axis; if a parameter does produce it, declare the layout of that parameter",
)


_ENOUGH = 4
"""Constraints ask what holds of each unit: with so many units, they say of a map what they say of it with others."""


@lru_cache(maxsize=64)
def _tried(name: str, old: int, new: int) -> AxisMap:
    """The map of a method: that of so many units is the same for all axes."""
    return METHODS[name].make(old, new, "")


def admits(axis: Axis) -> tuple[str, ...]:
    """What the axis admits, in words; empty if it admits nothing."""
    if axis.locked or _unmade(axis):
        return ()
    old = _tried_size(axis)
    most = sizes.largest(passage.kind for passage in axis.passages)
    tried = {"any size": 2 * old + 1, f"multiples of {axis.size}": 2 * old}
    if most is not None and axis.size < most < 2 * old:
        tried = {f"up to {most} units": most}
    found: dict[str, list[str]] = {}
    for name in METHODS:
        for words, size in tried.items():
            if name in ("mean_pad", "std_pad") and size % old == 0:  # nothing but copies
                continue
            if name in ("rms_pad", "std_pad") and not changes_floats(axis):  # no need of a scale
                continue
            if not any(refusals(axis, _tried(name, old, size))):
                found.setdefault(words, []).append(name)
                break
    return tuple(f"{words} ({', '.join(names)})" for words, names in found.items())


def annotate(table: AxisTable) -> AxisTable:
    """The table with `admits` filled in, and axes that admit no method locked with the reason."""
    axes = (a if a.locked else _annotated(a, _admitted(_Alike(_anywhere(a), a))) for a in table.axes)
    return replace(table, axes=tuple(axes))


@dataclass(frozen=True)
class _Alike:
    """An axis that equals others which admit the same."""

    anywhere: tuple[Any, ...]
    axis: Axis = field(compare=False)


@lru_cache(maxsize=1024)
def _admitted(alike: _Alike) -> tuple[str, ...]:
    """What axes admit that are alike: layers and models have many of them, and trying maps takes time."""
    return admits(alike.axis)


def _anywhere(axis: Axis) -> tuple[Any, ...]:
    """What `admits` depends on: an axis that is not locked, without names of tensors and places."""
    return (
        axis.size,
        axis.kind,
        frozenset((o.role, o.factor is None) for o in axis.occurrences),
        frozenset(passage.kind for passage in axis.passages),
        frozenset((type(c.target), c.size, c.energy, c.total) for c in axis.corrections),
    )


def _tried_size(axis: Axis) -> int:
    """So many units show what the axis admits: those it has where sizes are compared, else just enough."""
    compared = any(passage.kind.replace(":", " ").partition(" ")[0] in sizes.FAMILIES for passage in axis.passages)
    return axis.size if compared else _ENOUGH


def _annotated(axis: Axis, admitted: tuple[str, ...]) -> Axis:
    if admitted:
        return replace(axis, admits=admitted)
    if _unmade(axis):
        return replace(axis, locks=(_UNMADE,))
    old = _tried_size(axis)
    locks = {
        refusal.reason: Lock(refusal.reason, passage.where, refusal.next_step)
        for name in METHODS
        for passage, refusal in refusals(axis, _tried(name, old, 2 * old))
    }
    return replace(axis, locks=tuple(locks.values()))


def _unmade(axis: Axis) -> bool:
    """Whether no parameter produces the axis, though it is no input."""
    given = any(passage.kind == "input" for passage in axis.passages)
    return not given and all(occurrence.role is not Role.PRODUCES for occurrence in axis.occurrences)


def check(axis: Axis, axis_map: AxisMap, method: str) -> None:
    """Passes if the axis admits the map.

    Raises:
        AxisLockedError: the axis admits no map at all.
        SizeError: a passage refuses this map; with the methods and sizes that would do.
    """
    if axis.locked:
        lock = axis.locks[0]
        raise AxisLockedError(
            f"axis {axis.name!r} ({axis.size} -> {axis_map.new_size})",
            f"nothing: {lock.reason} (at {lock.where})",
            lock.next_step,
        )
    for passage, refusal in refusals(axis, axis_map):
        raise SizeError(
            f"axis {axis.name!r} from {axis.size} to {axis_map.new_size} by {method!r}: {refusal.reason} "
            f"(at {passage.where})",
            refusal.admitted or "nothing",
            "ask for one of these" if refusal.admitted else refusal.next_step,
        )
