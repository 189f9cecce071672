"""A batch of sequences, cut along time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from growkit.errors import EngineError, SettingsError, nearest
from growkit.train.containers import children, holds, rebuilt

TimeDims = int | Mapping[str, int | None]
"""The time axis of all entries, or that of each entry by its path."""

_ALLOWED = "each entry that has a time axis declared with its dim, each other one with None, and one length of time"
_MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of a batch along time."""

    batch: Any
    """Built like the whole batch: entries with a time axis as views, all others the very same objects."""
    weight: float
    """Share of the whole sequence, by time steps; with a PackedSequence, by its elements. The sum over the
    splits of weight times mean loss is the mean loss of the whole. Where padding is left out of the means,
    it is not: let the train step divide by the elements of the whole batch instead."""
    start: int
    """Index of its first time step."""
    length: int
    """Its time steps."""
    last: bool
    """Whether it is the last one of the batch."""


def split_batch(batch: Any, steps: int | None, *, time_dims: TimeDims) -> list[Split]:
    """Pieces of a batch of at most `steps` time steps each, in order; the last one holds the rest.

    batch: tensors, numpy arrays and PackedSequences in dicts, lists, tuples, named tuples and dataclasses, nested.
    steps: 0 or None, or more steps than there are: one split, the batch itself.
    time_dims: the dim of the time axis, for every entry: `1` for 'b t ...'. Or a dict from the path of an
        entry (`"x"`, `"0"`, `"inputs.tokens"`; names of containers and globs too, of which the first that
        fits counts) to its dim, or to None for an entry that stays whole: `{"x": 1, "lengths": None}`,
        `{"inputs": 1, "*": None}`. Every tensor with axes must be declared; nothing is guessed from sizes.

    A PackedSequence is split by time under any dim. Rows that have ended are left out of later splits, the
    others keep their order; packed with `enforce_sorted=True` they are the first ones, so that a carried state
    'layers rows units' goes on as `state[:, : batch.batch_sizes[0]]`.

    Raises: SettingsError for wrong `steps` or `time_dims`; EngineError where the batch and `time_dims`
        contradict each other, with all entries and their shapes.
    """
    steps = _checked_steps(steps)
    leaves = list(_leaves(batch))
    dims = _time_dims_of(leaves, checked_time_dims(time_dims))
    total = _one_length(leaves, dims, time_dims)
    if not steps or steps >= total:
        return [Split(batch, 1.0, 0, total, True)]
    packed = [leaf.value for leaf, dim in zip(leaves, dims, strict=True) if dim is not None and leaf.is_packed]
    counts = packed[0].batch_sizes.tolist() if packed else [1] * total
    splits = []
    for start in range(0, total, steps):
        length = min(steps, total - start)
        cuts = iter([leaf.value if dim is None else _cut(leaf.value, dim, start, length)
                     for leaf, dim in zip(leaves, dims, strict=True)])  # fmt: skip
        weight = sum(counts[start : start + length]) / sum(counts)
        splits.append(Split(_with_leaves(batch, cuts), weight, start, length, start + length == total))
    return splits


def _checked_steps(steps: object) -> int | None:
    """The length of splits as given.

    Raises: SettingsError for anything but None and whole numbers >= 0.
    """
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 0):
        raise SettingsError(
            f"splits of {steps!r} time steps", "a whole number >= 1; 0 or None for no splits", "give an int"
        )
    return steps


def checked_time_dims(time_dims: Any) -> Mapping[str, int | None]:
    """Patterns of entries and their time axes; one dim for all is the pattern `*`.

    Raises: SettingsError.
    """
    given: Mapping[str, int | None] = time_dims if isinstance(time_dims, Mapping) else {"*": time_dims}
    for pattern, dim in given.items():
        whole = isinstance(time_dims, Mapping) and dim is None
        if not isinstance(pattern, str) or not (whole or (isinstance(dim, int) and not isinstance(dim, bool))):
            raise SettingsError(
                f"time_dims={time_dims!r}",
                "the dim of the time axis (an int), or a dict from the path of an entry to its dim, or to None",
                "write time_dims=1, or time_dims={'x': 1, 'lengths': None}",
            )
    return given


def shapes_apart_from_time(batch: Any, time_dims: TimeDims) -> dict[str, list[int]]:
    """The shape of each entry without its time axis, by its path: batches of equal ones can share a carried state."""
    leaves = list(_leaves(batch))
    shapes = {}
    for leaf, dim in zip(leaves, _time_dims_of(leaves, checked_time_dims(time_dims)), strict=True):
        if leaf.is_packed:
            shapes[leaf.path] = [int(leaf.value.batch_sizes[0]), *leaf.value.data.shape[1:]]
        elif leaf.has_axes and dim is not None:
            shape = list(leaf.value.shape)
            del shape[dim]
            shapes[leaf.path] = shape
    return shapes


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An entry of a batch that is no container."""

    path: str
    value: Any

    @property
    def is_packed(self) -> bool:
        return isinstance(self.value, PackedSequence)

    @property
    def is_array(self) -> bool:
        return isinstance(self.value, _array_types())

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape) if self.is_array else ()

    @property
    def has_axes(self) -> bool:
        return self.is_packed or bool(self.shape)

    @property
    def is_opaque(self) -> bool:
        """An object that holds tensors where they cannot be split."""
        return not self.is_array and not self.is_packed and holds(self.value, _array_types())

    def length(self, dim: int) -> int | None:
        """Its size along an axis, for a PackedSequence its time steps; None where there is no such axis."""
        if self.is_packed:
            return len(self.value.batch_sizes)
        return self.shape[dim] if -len(self.shape) <= dim < len(self.shape) else None

    def text(self) -> str:
        shape = f" {self.shape}" if self.is_array else ""
        steps = f" of {len(self.value.batch_sizes)} time steps" if self.is_packed else ""
        return f"{self.path or 'the batch'}: {type(self.value).__name__}{shape}{steps}"


def _array_types() -> tuple[type, ...]:
    numpy = sys.modules.get("numpy")  # An array can only be there if numpy was imported.
    return (torch.Tensor,) if numpy is None else (torch.Tensor, numpy.ndarray)


def _leaves(value: Any, path: str = "") -> Iterator[_Leaf]:
    inner = children(value)
    if inner is None:
        yield _Leaf(path, value)
    for name, item in inner or ():
        yield from _leaves(item, f"{path}.{name}" if path else name)


def _with_leaves(value: Any, leaves: Iterator[Any]) -> Any:
    inner = children(value)
    return next(leaves) if inner is None else rebuilt(value, [_with_leaves(item, leaves) for _, item in inner])


def _time_dims_of(leaves: list[_Leaf], declared: Mapping[str, int | None]) -> list[int | None]:
    """The time axis of each leaf; None for those that stay whole."""
    dims: list[int | None] = []
    used: dict[str, bool] = {}  # Patterns that met a leaf, and whether one with axes was among them.
    for leaf in leaves:
        pattern = next((pattern for pattern in declared if _fits(pattern, leaf.path)), None)
        dim = None if pattern is None else declared[pattern]
        if leaf.is_opaque and (pattern is None or dim is not None):
            raise _error(
                f"{leaf.text()}, with tensors inside it",
                leaves,
                f"make it a dataclass or a dict, or write {leaf.path!r}: None in time_dims if it is to stay whole",
            )
        if pattern is None and leaf.has_axes:
            raise _error(
                f"no time axis declared for {leaf.text()}",
                leaves,
                f"add {leaf.path!r}: None to time_dims if it has no time axis, else its dim",
            )
        if dim is not None and leaf.has_axes and leaf.length(dim) is None:
            raise _error(f"the time axis {dim} for {leaf.text()}", leaves, _suggestion(leaves, declared))
        dims.append(dim if leaf.has_axes else None)
        if pattern is not None:
            used[pattern] = used.get(pattern, False) or leaf.has_axes
    for pattern, dim in declared.items():
        if not used.get(pattern, False) and (dim is not None or not (pattern in used or _is_glob(pattern))):
            raise _error(
                f"time_dims={{{pattern!r}: {dim}}}, which decides no entry", leaves, _why_idle(pattern, leaves)
            )
    return dims


def _fits(pattern: str, path: str) -> bool:
    """Whether a pattern names an entry, or a container around it."""
    parts = path.split(".")
    around = [".".join(parts[: count + 1]) for count in range(len(parts))]
    return any(pattern == name or fnmatchcase(name, pattern) for name in around)


def _is_glob(pattern: str) -> bool:
    return any(mark in pattern for mark in "*?[")


def _why_idle(pattern: str, leaves: list[_Leaf]) -> str:
    if any(_fits(pattern, leaf.path) and leaf.has_axes for leaf in leaves):
        return "put it before the pattern that fits the same entries: the first one counts"
    paths = [leaf.path for leaf in leaves if leaf.has_axes]
    close = nearest(pattern, paths)
    if close:
        return f"write {close[0]!r}"
    return "name entries with axes" if paths else "give a batch that holds tensors"


def _one_length(leaves: list[_Leaf], dims: list[int | None], time_dims: TimeDims) -> int:
    """The time steps of the batch."""
    timed = [(leaf, dim) for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not timed:
        raise _error(
            f"time_dims={time_dims!r} for a batch without a time axis",
            leaves,
            "declare the time axis of at least one entry, or leave truncated_bptt_steps out",
        )
    lengths = [leaf.length(dim) for leaf, dim in timed]
    packed = [leaf.value.batch_sizes.tolist() for leaf, _ in timed if leaf.is_packed]
    if any(sizes != packed[0] for sizes in packed):
        raise _error(
            "PackedSequences whose rows have different lengths", leaves, "pack them by the same lengths, in one order"
        )
    if len(set(lengths)) > 1:
        of = ", ".join(f"{leaf.path} has {length}" for (leaf, _), length in zip(timed, lengths, strict=True))
        raise _error(f"different lengths of time: {of}", leaves, _suggestion(leaves, checked_time_dims(time_dims)))
    assert lengths[0] is not None
    return lengths[0]


def _suggestion(leaves: list[_Leaf], declared: Mapping[str, int | None]) -> str:
    """Every entry with its dim, as far as it is known."""
    dims: dict[str, int | None] = {}
    for leaf in leaves:
        if leaf.has_axes:
            dim = next((dim for pattern, dim in declared.items() if _fits(pattern, leaf.path)), None)
            dims[leaf.path] = dim if dim is not None and leaf.length(dim) is not None else None
    return f"write time_dims={dims}, with None for each entry that has no time axis, and its dim for each that has one"


def _error(what: str, leaves: list[_Leaf], next_step: str) -> EngineError:
    rows = [leaf.text() for leaf in sorted(leaves, key=lambda leaf: not leaf.has_axes)]
    left = [f"and {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else []
    listed = "".join(f"\n    {row}" for row in [*rows[:_MOST_ROWS], *left])
    return EngineError(f"{what}; the entries of the batch:{listed}", _ALLOWED, next_step)


def _cut(value: Any, dim: int, start: int, length: int) -> Any:
    if isinstance(value, PackedSequence):
        return _cut_packed(value, start, length)
    if isinstance(value, torch.Tensor):
        return value.narrow(dim, start, length)
    index = [slice(None)] * value.ndim
    index[dim] = slice(start, start + length)
    return value[tuple(index)]


def _cut_packed(packed: PackedSequence, start: int, length: int) -> PackedSequence:
    """Rows lie in order of length, so those that go on are the first ones of the order they were packed in."""
    sizes = packed.batch_sizes
    offsets = [0, *accumulate(sizes.tolist())]
    data = packed.data[offsets[start] : offsets[start + length]]
    order, back = packed.sorted_indices, packed.unsorted_indices
    if order is not None and sizes[start] < sizes[0]:
        # Rank of each row that goes on among those that go on.
        back = order[: int(sizes[start])].argsort()
        order = back.argsort()
    return PackedSequence(data, sizes[start : start + length], order, back)
