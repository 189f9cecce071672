"""Which parameters scale a value: those that, all multiplied by one number, multiply it by that number.

They are looked for from the value upwards, along ops that are linear in one operand. Nothing else may read what lies
between, since it would be scaled too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from growkit.axes.expressions import Role
from growkit.axes.node import Node
from growkit.discovery.call import Nature
from growkit.discovery.graph import PARTIAL, WHOLE, Graph
from growkit.discovery.operations import Op, Value, shift_of

_LINEAR = WHOLE | {
    "neg", "sum", "mean", "relu", "abs", "leaky_relu", "dropout", "native_dropout", "cumsum", "avg_pool1d",
    "avg_pool2d", "_adaptive_avg_pool2d", "index",
}  # fmt: skip
"""Ops that a positive factor of their operand passes, whatever their other arguments are."""
_PRODUCTS = {
    "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"),
    "mv": ("self", "vec"), "convolution": ("input", "weight"),
}  # fmt: skip
_BIASES = {"addmm": "self", "baddbmm": "self", "convolution": "bias"}
_NORMS = frozenset({"native_layer_norm", "_fused_rms_norm", "native_group_norm", "native_batch_norm"})
MOST_WAYS = 16
"""More ways than this to scale one value are not tried."""


@dataclass(frozen=True)
class Leaf:
    """An occurrence of the axis in a parameter that scales the value."""

    parameter: Value
    node: Node


@dataclass(frozen=True)
class Cut:
    """What scales a value: `leaves`, the ops on the way, and the values that are scaled on it.

    `parts`: values of which only some entries are scaled, with the occurrences of the axis that are.
    """

    leaves: tuple[Leaf, ...] = ()
    ops: frozenset[int] = frozenset()
    scaled: tuple[Value, ...] = ()
    parts: tuple[tuple[Value, tuple[Node, ...]], ...] = ()

    def __add__(self, other: Cut) -> Cut:
        if self is NOTHING or other is NOTHING:
            return self if other is NOTHING else other
        return Cut(
            tuple(dict.fromkeys(self.leaves + other.leaves)),
            self.ops | other.ops,
            self.scaled + other.scaled,
            self.parts + other.parts,
        )


NOTHING = Cut()


class Cuts:
    """Finds what scales a value."""

    _leaves_others = True
    """Whether entries of the same units beside those scaled are not to change."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def above(self, value: Value, serial: int, reader: int) -> Cut | None:
        """Parameters that hold the axis `serial` and scale `value`, which the op `reader` alone reads; None if none do.

        Law: multiplying each leaf by c multiplies the value by c, and changes nothing else.
        """
        nodes = tuple(self.graph.of_axis(value, serial))
        for cut in islice(self._ways(value, serial, nodes), MOST_WAYS):
            if cut.leaves and self._alone(cut, reader):
                return cut
        return None

    def _alone(self, cut: Cut, reader: int) -> bool:
        """Whether all that reads the scaled values lies on the way."""
        graph, ops = self.graph, cut.ops | {reader}
        for value in cut.scaled:
            if value in graph.outputs or not ops.issuperset(graph.readers(value)):
                return False
        for value, nodes in cut.parts:
            touched = {id(node) for node in nodes}
            for number in graph.readers(value):
                if number not in ops and (graph.ops[number].name not in PARTIAL or self._touches(number, touched)):
                    return False
        return True

    def _touches(self, number: int, nodes: set[int]) -> bool:
        found = (leaf for value in self.graph.results(number) for dim in self.graph.leaves(value) for leaf in dim)
        return any(id(leaf) in nodes for leaf in found)

    def _ways(self, value: Value, serial: int, nodes: tuple[Node, ...]) -> Iterator[Cut]:
        """Every way to scale `value`, or its part at the occurrences `nodes` of the axis."""
        graph = self.graph
        nature = graph.nature(value)
        if nature is not Nature.ACTIVATION:
            yield from self._leaf(value, serial, nodes)
            return
        op = graph.maker(value)
        if op is None or graph.changes_behind(value.number):
            return
        here = self._here(value)
        for way in self._through(op, value, serial, nodes):
            yield here + way

    def _here(self, value: Value) -> Cut:
        """What a way that leads over a value says of it."""
        return Cut(ops=frozenset({value.number}), scaled=(value,))

    def _through(self, op: Op, value: Value, serial: int, nodes: tuple[Node, ...]) -> Iterator[Cut]:
        arguments = op.arguments
        if op.name in PARTIAL:
            operand = arguments["self"]
            others = {id(node) for node in self.graph.of_axis(operand, serial)}
            kept = tuple(node for node in nodes if id(node) in others)
            siblings = tuple(x for x in self.graph.results(value.number) if x != value)
            if not nodes and not others:  # summed over before: all of the operand is scaled
                for way in self._ways(operand, serial, ()):
                    yield Cut(scaled=siblings) + way
                return
            touched = {id(node) for x in siblings for node in self.graph.of_axis(x, serial)}
            if not nodes or len(kept) < len(nodes) or (self._leaves_others and touched & {id(node) for node in nodes}):
                return
            for way in self._ways(operand, serial, kept):
                part = Cut(parts=((operand, kept),)) + _without(way, operand)
                yield way if len(others) == len(kept) else part
        elif op.name in _LINEAR or _keeps_factors(op):
            yield from self._ways(arguments["self"], serial, self._moved(arguments["self"], serial, nodes))
        elif op.name == "embedding":
            yield from self._leaf(arguments["weight"], serial, self._moved(arguments["weight"], serial, nodes))
        elif op.name in ("add", "sub", "cat", "stack"):
            side_by_side = op.name in ("cat", "stack")
            terms = self._beside(op, serial) if side_by_side else (arguments["self"], arguments["other"])
            yield from self._all(value, terms, serial, nodes)
        elif op.name in ("mul", "div"):
            yield from self._product(arguments["self"], arguments["other"], op.name == "div", serial, nodes)
        elif op.name in _PRODUCTS:
            left, right = (arguments[name] for name in _PRODUCTS[op.name])
            for factor in self._factors(left, right):
                bias = arguments.get(_BIASES.get(op.name, ""))
                for way in self._ways(factor, serial, self._moved(factor, serial, nodes)):
                    if bias is None:
                        yield way
                    else:
                        at = self._places(factor, serial, nodes)
                        for other in self._leaf(bias, serial, self._at(bias, serial, at)):
                            yield way + other
        elif op.name in _NORMS and isinstance(arguments.get("weight"), Value):
            held = [x for x in (arguments["weight"], arguments.get("bias")) if isinstance(x, Value)]
            yield from self._all(value, held, serial, nodes)

    def _beside(self, op: Op, serial: int) -> Sequence[object]:
        """Which of the tensors that lie side by side are scaled."""
        terms: Sequence[object] = op.arguments["tensors"]
        return terms

    def _all(self, value: Value, terms: Sequence[object], serial: int, nodes: tuple[Node, ...]) -> Iterator[Cut]:
        """Every term of a value scaled."""
        ways = [NOTHING]
        for term in terms:
            if not isinstance(term, Value):
                return
            found = list(islice(self._ways(term, serial, self._moved(term, serial, nodes, value)), MOST_WAYS))
            ways = [a + b for a in ways for b in found][:MOST_WAYS]
        yield from ways

    def _product(
        self, left: object, right: object, quotient: bool, serial: int, nodes: tuple[Node, ...]
    ) -> Iterator[Cut]:
        factors = [left] if quotient else self._factors(left, right)
        for factor in factors:
            if isinstance(factor, Value):
                yield from self._ways(factor, serial, self._moved(factor, serial, nodes))

    def _factors(self, left: object, right: object) -> list[Value]:
        """The factors of a product in the order in which they are to be scaled: parameters first."""
        factors = [x for x in (left, right) if isinstance(x, Value)]
        natures = [self.graph.nature(x) for x in factors]
        weights = [x for x, nature in zip(factors, natures, strict=True) if nature is Nature.WEIGHT]
        return weights or [x for x, nature in zip(factors, natures, strict=True) if nature is Nature.ACTIVATION]

    def _leaf(self, value: Value, serial: int, nodes: tuple[Node, ...]) -> Iterator[Cut]:
        """A parameter, a part of one, or one that a number is added to before it is used."""
        graph, ops, shifted = self.graph, set(), False
        used, places = value, self._places(value, serial, nodes)
        scaled: list[Value] = []
        parts: list[tuple[Value, tuple[Node, ...]]] = []
        while value.tensor not in graph.parameters:
            op = graph.maker(value)
            if op is None or graph.nature(value) is not Nature.WEIGHT:
                return
            ops.add(value.number)
            if not parts:
                scaled.append(value)
            if op.name in WHOLE:
                value = op.arguments["self"]
            elif op.name in PARTIAL and not shifted and nodes:
                value = op.arguments["self"]
                parts.append((value, nodes))
            elif not shifted and (shift := shift_of(op)):
                shifted, value = True, shift[0]
            else:
                return
        if graph.nature(value) is not Nature.WEIGHT:
            return
        held = list(graph.of_axis(value, serial))
        mine = {id(node) for node in nodes}
        chosen = [node for node in held if id(node) in mine]
        if not chosen and not parts and self._in_one_dim(value, used, serial):  # `1 + gain` has occurrences of its own
            chosen = [held[place] for place in places]
        dims = [[node for node in chosen if any(node is one for one in dim)] for dim in graph.leaves(value)]
        if sum(map(bool, dims)) > 1:  # a square weight: one side of it is scaled
            chosen = max(dims, key=lambda dim: any(Role.PRODUCES in node.roles for node in dim))
        if chosen:
            leaves = tuple(Leaf(value, node) for node in chosen)
            yield Cut(leaves, frozenset(ops), tuple(scaled) if parts else (*scaled, value), tuple(parts))

    def _in_one_dim(self, value: Value, other: Value, serial: int) -> bool:
        """Whether an axis occurs in one dim of two values, equally often."""
        counts = [
            [
                count
                for dim in self.graph.leaves(one)
                if (count := sum(self.graph.serial(leaf) == serial for leaf in dim))
            ]
            for one in (value, other)
        ]
        return counts[0] == counts[1] and len(counts[0]) == 1

    def _moved(
        self, operand: object, serial: int, nodes: tuple[Node, ...], of: Value | None = None
    ) -> tuple[Node, ...]:
        """The occurrences of the axis in an operand that are those of the result: the same, or all.

        In a term of a value `of`, those at the same places.
        """
        if not isinstance(operand, Value):
            return ()
        theirs = tuple(self.graph.of_axis(operand, serial))
        mine = {id(node) for node in nodes}
        same = tuple(node for node in theirs if id(node) in mine)
        if of is not None and not same and len(theirs) == len(list(self.graph.of_axis(of, serial))):
            return self._at(operand, serial, self._places(of, serial, nodes))
        return same or theirs

    def _places(self, factor: Value, serial: int, nodes: tuple[Node, ...]) -> list[int]:
        mine = {id(node) for node in nodes}
        theirs = list(self.graph.of_axis(factor, serial))
        return [place for place, node in enumerate(theirs) if id(node) in mine] or list(range(len(theirs)))

    def _at(self, value: Value, serial: int, places: list[int]) -> tuple[Node, ...]:
        theirs = list(self.graph.of_axis(value, serial))
        return tuple(theirs[place] for place in places if place < len(theirs))


def _keeps_factors(op: Op) -> bool:
    """Whether what an op puts in the place of entries, or beside them, is its own multiple: zero or infinity."""
    value = op.arguments.get("value", 0)
    return op.name in ("constant_pad_nd", "masked_fill") and value in (0, float("inf"), float("-inf"))


def _without(cut: Cut, value: Value) -> Cut:
    """The cut without a value that is scaled in part only."""
    return Cut(cut.leaves, cut.ops, tuple(v for v in cut.scaled if v != value), cut.parts)
