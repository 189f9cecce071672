"""One op of the traced run, as the rules see it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from growkit.axes.axis import Lock
from growkit.axes.expressions import Role
from growkit.axes.node import Dim, Irreconcilable, Node
from growkit.axes.union_find import Axes
from growkit.discovery.derived import Derived
from growkit.discovery.stacks import Stacks

DECLARE = "declare the layouts of these tensors: discover(..., layouts={name: pattern})"
OTHERS = "grow another axis"
_OTHER_DATA = "build the model for data of another size, or grow another axis"


class Unfollowable(Exception):
    """An op, or a use of it, that no rule covers: all axes it meets are locked."""


class Nature(IntEnum):
    """What a tensor depends on. The largest of the operands wins."""

    CONSTANT = 0
    """Nothing: a buffer, or made in the forward pass."""
    WEIGHT = 1
    """Parameters only."""
    ACTIVATION = 2
    """The inputs."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about one tensor of the run."""

    dims: list[Dim]
    nature: Nature


Notes = list[tuple[tuple[Node, ...], str | Lock]]
"""Passages, and locks, with the nodes that pass them."""


@dataclass
class Call:
    """An op with its arguments by name (`call["self"]`), its result, and what is known about tensors."""

    axes: Axes
    op: str
    arguments: dict[str, Any]
    result: Any
    where: str
    known: Callable[[Tensor], Known]
    cuts: list[tuple[Dim, int]] = field(default_factory=list)
    """Where pieces that an op takes out of axes of parameters are noted; with the number of their node, those that were
    slices of no axis when they were taken."""
    derived: Derived = field(default_factory=Derived)
    """Where it is noted what is computed from parameters."""
    slices: dict[int, tuple[Dim, int, int]] = field(default_factory=dict)
    """Of slices of dims that no parameter holds: where they lie in which dim, by the number of their node."""

    stacks: Stacks = field(default_factory=Stacks)
    """Where it is noted which blocks of products are picked."""

    notes: Notes = field(default_factory=list)
    """Passages that the op is, with the nodes that pass it."""

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    def dim(self, argument: str, of: Tensor) -> int:
        """The argument as the number of a dim, counted from the front."""
        return self.arguments[argument] % max(of.dim(), 1)

    def fresh(self, size: int) -> Dim:
        """A dim that is no known axis."""
        return [] if size == 1 else [self.axes.node(size)]

    def places(self, sizes: Iterable[int]) -> list[Dim]:
        """Dims that count the places of what the op gives: the data makes their sizes, no parameter can."""
        dims = [self.fresh(size) for size in sizes]
        for dim in dims:
            self.lock(dim, f"it counts the places of what {self.op} gives: its size is that of the data", _OTHER_DATA)
        return dims

    def nature(self, tensors: Iterable[Tensor]) -> Nature:
        """The nature of what is made of these tensors."""
        return max((self.known(t).nature for t in tensors), default=Nature.CONSTANT)

    def tie(self, first: Dim, second: Dim) -> None:
        """Says that two dims are the same axes."""
        if first != second:
            self.axes.tie(first, second, self.where)

    def note(self, dim: Iterable[Any], kind: str) -> None:
        """Records a passage along a dim, which counts if anything reads the result."""
        self.notes.append((tuple(dim), kind))

    def lock_if_read(self, dim: Iterable[Any], reason: str) -> None:
        """Locks a dim for good if anything reads the result, not only its shape."""
        self.notes.append((tuple(dim), Lock(reason, self.where, OTHERS)))

    def lock(self, dim: Iterable[Any], reason: str, next_step: str = OTHERS) -> None:
        """Locks a dim for good."""
        self.axes.lock(dim, Lock(reason, self.where, next_step))

    def cut(self, dim: Dim, start: int, stop: int, taken: int = -1) -> Dim:
        """A slice of a dim; locked where it goes across the structure of the axis."""
        try:
            piece = self.axes.cut(dim, start, stop)
            if piece is not dim and self.axes.named(piece):
                self.cuts.append((piece, taken))
            elif piece is not dim:
                self.slices[piece[0].serial] = (dim, start, stop)
            return piece
        except Irreconcilable as conflict:
            self.lock(dim, f"a slice that cannot be followed: {conflict}", DECLARE)
            return self.fresh(stop - start)

    def written(self, tensor: Tensor) -> None:
        """Says that a tensor was written: what it is a slice of has the axes of what was written there."""
        for dim in self.known(tensor).dims:
            if len(dim) == 1 and dim[0].serial in self.slices and self.axes.named(dim):
                whole, start, stop = self.slices[dim[0].serial]
                self.axes.mark(self.axes.join(whole))
                self.tie(self.cut(whole, start, stop, dim[0].serial), dim)

    def split(self, dim: Dim, outer: int) -> tuple[Dim, Dim]:
        """A dim in `outer` equal blocks."""
        try:
            return self.axes.split_dim([node for node in dim if node.size != 1], outer)
        except Irreconcilable as conflict:
            raise Unfollowable(f"groups that cannot be followed: {conflict}") from conflict

    def derive(self, *sources: tuple[Dim, str]) -> Dim:
        """The dim of a tensor that is computed from parameters, whose roles go back to them."""
        return self.derived.link(self.axes, sources, self.where)

    def attach(self, tensor: Tensor | None, dims: Sequence[Dim], role: Role) -> None:
        """Ties a parameter or buffer to dims of an activation, in a role."""
        if tensor is None:
            return
        known = self.known(tensor)
        for mine, theirs in zip(known.dims, dims, strict=True):
            if known.nature != Nature.ACTIVATION:
                self.axes.assign(mine, role)
            self.tie(theirs, mine)


def bind(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an op by name, with defaults."""
    named = dict(_signature(func)[0])
    named.update(zip(named, args, strict=False))
    named.update(kwargs)
    return named


@cache  # torch makes a new object of each argument whenever it is asked
def _signature(func: OpOverload) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments of an op with their defaults, and the names of those that it writes in place."""
    arguments = func._schema.arguments
    infos = ((argument.name, argument.alias_info) for argument in arguments)
    written = tuple(name for name, info in infos if info is not None and info.is_write)
    return {argument.name: argument.default_value for argument in arguments}, written


def flat(values: Iterable[Any]) -> list[Any]:
    """The leaves of several values, as torch's `tree_leaves` gives them, which takes ten times as long for these."""
    found = []
    for value in values:
        kind = type(value)
        if kind is list or kind is tuple:
            found += flat(value)
        elif kind in _DICTS:
            if value:
                found += flat(value.values())
        elif kind in _LEAVES or isinstance(value, (int, float)):
            found.append(value)
        else:
            found += tree_leaves(value)
    return found


_LEAVES = frozenset({Tensor, nn.Parameter, int, float, bool, str, type(None), torch.dtype, torch.device, slice})
_DICTS = frozenset({dict, OrderedDict, defaultdict})


def written(func: OpOverload, arguments: Mapping[str, Any]) -> list[Tensor]:
    """The arguments that an op writes in place."""
    names = writes(func)
    return [x for x in flat(arguments[name] for name in names) if isinstance(x, Tensor)] if names else []


def writes(func: OpOverload) -> tuple[str, ...]:
    """The names of the arguments that an op writes in place."""
    return _signature(func)[1]
