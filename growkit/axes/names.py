"""From names to axes: parameter dims, globs, and the numbers that modules keep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from growkit.axes.axis import Axis, Number
from growkit.axes.expressions import Leaf, leaves
from growkit.errors import NameLookupError, nearest


def find(name: str, axes: Sequence[Axis], numbers: Sequence[Number], modules: Mapping[str, str]) -> tuple[Axis, ...]:
    """The axes that a name stands for: one axis, or a joint group. `modules`: qualified type of each module, by path.

    A name is, in this order: an axis or any tensor dim it occurs in (`layers.0.fc1.weight[0]`); a glob over
    these and over attributes, where `*` stands for one name between dots and `**` for any number
    (`layers.*.fc1.weight[0]`); an attribute that keeps sizes, by its path or the end of it
    (`layers.0.attention.num_heads`, `num_heads`); the end of a tensor dim, if only one axis has it.

    An attribute stands for axes of one kind, whatever their sizes, that modules of one class keep under this name. What
    torch's own layers only keep for the reader (`in_features`) ties nothing together: it stands for one axis.

    Raises:
        NameLookupError: unknown, with the nearest names; or ambiguous, with the candidates: so is a dim that is made of
            several axes.
    """
    exact = [axis for axis in axes if name in axis.names]
    if exact:
        return (exact[0],)
    if "*" in name:
        pattern = pattern_of(name)
        chosen = [n for n in numbers if pattern.fullmatch(n.path)]
        sized = {axis.name for axis in _sized(axes, chosen)}
        found = [axis for axis in axes if axis.name in sized or any(map(pattern.fullmatch, axis.names))]
        # what the caller sees grows only if it is named itself
        inside = [axis for axis in found if axis.kind not in ("input", "output", "vocabulary")]
        if found:
            return tuple(inside or found)
        raise _unknown(name, axes, numbers)
    keeping = [n for n in numbers if n.path == name] or [n for n in numbers if n.path.endswith("." + name)]
    sized_axes = _sized(axes, keeping)
    if len(sized_axes) > 1 and not _joint(sized_axes, keeping, modules):
        raise _ambiguous(name, sized_axes)
    if sized_axes and any(not isinstance(size, Leaf) for number in keeping for size in number.sizes):
        made_of = f"write the axis: {name!r} is made of it and more"
        raise _ambiguous(name, sized_axes, made_of)
    if sized_axes:
        return sized_axes
    composed = [axis for axis in axes if any(known.rpartition(".")[0] == name for known in axis.names)]
    if composed:
        raise _ambiguous(name, composed, "write one of these: it is a dim made of several axes")
    ending = [axis for axis in axes if any(known.endswith("." + name) for known in axis.names)]
    if len(ending) > 1:
        raise _ambiguous(name, ending)
    if ending:
        return (ending[0],)
    raise _unknown(name, axes, numbers)


def pattern_of(glob: str) -> re.Pattern[str]:
    """What a glob matches: `*` stands for one name between dots, `**` for any number of them."""
    words = {"**": ".*", "*": r"[^.\[\]]*"}
    return re.compile("".join(words.get(piece, re.escape(piece)) for piece in re.split(r"(\*\*|\*)", glob)))


def _sized(axes: Sequence[Axis], numbers: Sequence[Number]) -> tuple[Axis, ...]:
    """The axes in the sizes of these numbers."""
    named = {leaf.axis for number in numbers for size in number.sizes for leaf in leaves(size)}
    return tuple(axis for axis in axes if axis.name in named)


def _joint(axes: Sequence[Axis], numbers: Sequence[Number], modules: Mapping[str, str]) -> bool:
    """Whether several axes that numbers of one attribute name size are meant together."""
    owners = {number.path: modules.get(number.path.rpartition(".")[0], "") for number in numbers}
    bookkeeping = any(owners[number.path].startswith("torch.nn.") and not number.read for number in numbers)
    # classes that all keep the size of the same axes, as a model and its layers may, say the same
    sized = [_sized(axes, [n for n in numbers if owners[n.path] == owner]) for owner in set(owners.values())]
    meant = {tuple(axis.name for axis in group) for group in sized}
    return len({axis.kind for axis in axes}) == len(meant) == 1 and not (bookkeeping and len(owners) > 1)


def _ambiguous(name: str, axes: Sequence[Axis], next_step: str | None = None) -> NameLookupError:
    candidates = ", ".join(f"{axis.name} ({axis.kind}, {axis.size})" for axis in axes)
    return NameLookupError(
        f"the name {name!r} fits {len(axes)} axes",
        f"a name of one axis: {candidates}",
        next_step or f"write one of these, or a glob such as '**.{name}' to mean all of them",
    )


def _unknown(name: str, axes: Sequence[Axis], numbers: Sequence[Number]) -> NameLookupError:
    paths = {n for axis in axes for n in axis.names} | {number.path for number in numbers}
    endings = {".".join(path.split(".")[-pieces:]) for path in paths for pieces in (1, 2, 3)}
    near = nearest(name, paths | endings, 3)
    return NameLookupError(
        f"the name {name!r} fits no axis of this model",
        "an axis name, a tensor dim such as 'fc1.weight[0]', a glob, or an attribute that keeps a size",
        f"did you mean {' or '.join(repr(n) for n in near)}?" if near else "print the axis table to see the names",
    )
