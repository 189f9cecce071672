"""The traced run as a graph: which op made each value, which ops read it, and the axes of its dims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from growkit.axes.node import Dim, Node
from growkit.axes.reading import leaf_nodes
from growkit.axes.union_find import Axes
from growkit.discovery.call import Known, Nature
from growkit.discovery.operations import Op, Value

PARTIAL = frozenset({"slice", "select", "narrow", "split", "split_with_sizes", "unbind", "index_select"})
"""Ops whose results hold some entries of their operand."""
WHOLE = frozenset(
    {
        "clone", "alias", "detach", "contiguous", "_to_copy", "lift_fresh", "view", "_unsafe_view", "reshape", "t",
        "_reshape_alias", "transpose", "permute", "unsqueeze", "squeeze", "expand", "repeat", "flip", "roll",
        "view_copy",
    }
)  # fmt: skip
"""Ops whose result holds all entries of its operand."""


class Graph:
    """Ops and values of one run, after it. `parameters`: names by tensor."""

    def __init__(
        self,
        axes: Axes,
        ops: Sequence[Op],
        known: Callable[[int], Known | None],
        parameters: Mapping[int, str],
        outputs: Iterable[Value],
    ):
        self.axes, self.ops, self.known, self.parameters = axes, ops, known, parameters
        self.outputs = frozenset(outputs)
        self._readers: dict[Value, list[int]] = defaultdict(list)
        for number, op in enumerate(ops):
            for value in dict.fromkeys(op.values()):
                self._readers[value].append(number)
        self._leaves: dict[int, list[list[Node]]] = {}
        self._leaves_of: dict[int, list[Node]] = {}
        self._by_axis: dict[int, dict[int, list[Node]]] = {}
        self._behind = {v.number for v in (*self._readers, *self.outputs) if v.number >= 0 and self.maker(v) is None}

    def readers(self, value: Value) -> list[int]:
        """Numbers of the ops that read a value."""
        return self._readers.get(value, [])

    def maker(self, value: Value) -> Op | None:
        """The op that made a value; None for what was there before, and for what an op changed behind a view of it."""
        op = self.ops[value.number] if value.number >= 0 else None
        return op if op is not None and value.tensor in op.results else None

    def changes_behind(self, number: int) -> bool:
        """Whether an op changes, in place, tensors that share memory with its result and are read afterwards."""
        return number in self._behind

    def changed_behind(self, value: Value) -> bool:
        """Whether an op that reads a value changes tensors behind it."""
        return any(map(self.changes_behind, self.readers(value)))

    def nature(self, value: Value) -> Nature:
        """What the value depends on."""
        known = self.known(value.tensor)
        return Nature.CONSTANT if known is None else known.nature

    def dims(self, value: Value) -> list[Dim]:
        """The dims of a value."""
        known = self.known(value.tensor)
        return [] if known is None else known.dims

    def leaves(self, value: Value) -> list[list[Node]]:
        """The whole occurrences in each dim."""
        found = self._leaves.get(value.tensor)
        if found is None:
            found = [[leaf for node in dim for leaf in self._whole(node)] for dim in self.dims(value)]
            self._leaves[value.tensor] = found
        return found

    def _whole(self, node: Node) -> list[Node]:
        found = self._leaves_of.get(node.serial)
        if found is None:
            found = self._leaves_of[node.serial] = leaf_nodes(self.axes, node)
        return found

    def serials(self, value: Value) -> Collection[int]:
        """The axes of a value."""
        return self._axes_of(value).keys()

    def of_axis(self, value: Value, serial: int) -> Sequence[Node]:
        """The occurrences of one axis in a value."""
        return self._axes_of(value).get(serial, ())

    def _axes_of(self, value: Value) -> dict[int, list[Node]]:
        found = self._by_axis.get(value.tensor)
        if found is None:
            found = self._by_axis[value.tensor] = {}
            for leaf in (leaf for dim in self.leaves(value) for leaf in dim):
                found.setdefault(self.serial(leaf), []).append(leaf)
        return found

    def serial(self, node: Node) -> int:
        """The number by which an axis is called."""
        return self.axes.root(node).serial

    def results(self, number: int) -> list[Value]:
        """What an op made."""
        return [Value(tensor, number) for tensor in self.ops[number].results]
