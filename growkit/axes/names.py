"""From names to axes: parameter dims, globs, and the numbers that modules keep."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from growkit.axes.expressions import leaves
from growkit.axes.table import Axis, AxisTable
from growkit.errors import NameLookupError


def find(table: AxisTable, name: str) -> tuple[Axis, ...]:
    """The axes that a name stands for: one axis, or a joint group.

    A name is, in this order: an axis or any tensor dim it occurs in (`layers.0.fc1.weight[0]`); a glob over
    these and over attributes, where `*` stands for one name between dots and `**` for any number
    (`layers.*.fc1.weight[0]`); an attribute that keeps sizes, by its path or the end of it
    (`layers.0.attention.num_heads`, `num_heads`); the end of a tensor dim, if only one axis has it.

    Raises:
        NameLookupError: unknown, with the nearest names; or ambiguous, with the candidates.
    """
    exact = [axis for axis in table if name in axis.names]
    if exact:
        return (exact[0],)
    if "*" in name:
        found = _by_glob(table, name)
        if found:
            return found
        raise _unknown(table, name)
    sized = _by_number(table, [path for path in _numbers(table) if path == name or path.endswith("." + name)])
    if sized:
        if len({(axis.kind, axis.size) for axis in sized}) > 1:
            raise _ambiguous(name, sized)
        return sized
    ending = [axis for axis in table if any(known.endswith("." + name) for known in axis.names)]
    if len(ending) > 1:
        raise _ambiguous(name, ending)
    if ending:
        return (ending[0],)
    raise _unknown(table, name)


def _by_glob(table: AxisTable, glob: str) -> tuple[Axis, ...]:
    words = {"**": ".*", "*": r"[^.\[\]]*"}
    pattern = re.compile("".join(words.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*|\*)", glob)))
    named = {axis.name for axis in table if any(pattern.fullmatch(name) for name in axis.names)}
    numbered = _by_number(table, [path for path in _numbers(table) if pattern.fullmatch(path)])
    named |= {axis.name for axis in numbered}
    return tuple(axis for axis in table if axis.name in named)


def _numbers(table: AxisTable) -> Sequence[str]:
    return [number.path for number in table.numbers]


def _by_number(table: AxisTable, paths: Iterable[str]) -> tuple[Axis, ...]:
    chosen = set(paths)
    named = {
        leaf.axis
        for number in table.numbers
        if number.path in chosen
        for size in number.sizes
        for leaf in leaves(size)
    }
    return tuple(axis for axis in table if axis.name in named)


def _ambiguous(name: str, axes: Sequence[Axis]) -> NameLookupError:
    candidates = ", ".join(f"{axis.name} ({axis.kind}, {axis.size})" for axis in axes)
    return NameLookupError(
        f"the name {name!r} fits {len(axes)} axes",
        f"a name of one axis: {candidates}",
        f"write one of these, or a glob such as '**.{name}' to mean all of them",
    )


def _unknown(table: AxisTable, name: str) -> NameLookupError:
    known = {n for axis in table for n in axis.names} | {n.rsplit(".", 1)[-1] for n in _numbers(table)}
    near = difflib.get_close_matches(name, sorted(known), 3, 0.4)
    # the end of a long name may be near where the whole is not
    endings = {n.rsplit(".", k)[-k:][0] + "".join("." + e for e in n.rsplit(".", k)[-k:][1:]): n for n in known for k in (1, 2)}
    near = near or [endings[e] for e in difflib.get_close_matches(name, sorted(endings), 3, 0.4)]
    return NameLookupError(
        f"the name {name!r} fits no axis of this model",
        "an axis name, a tensor dim such as 'fc1.weight[0]', a glob, or an attribute that keeps a size",
        f"did you mean {' or '.join(repr(n) for n in near)}?" if near else "print the axis table to see the names",
    )
