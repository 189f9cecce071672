"""What ops turned out to be, in the whole run, that by themselves are functions of single units or sums of products.

A square that is only summed is part of a norm; a quotient by what is the same for all units is one as well. Such a
passage is noted under a better known kind, for each axis by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from growkit.axes.node import Node
from growkit.axes.reading import leaf_nodes
from growkit.discovery.call import Nature
from growkit.discovery.graph import WHOLE, Graph
from growkit.discovery.operations import Op, Value

_ENTRYWISE = frozenset(
    {"pow", "square", "mul", "div", "tanh", "sigmoid", "exp", "erf", "abs", "sqrt", "clone", "_to_copy", "neg"}
)
Resolved = dict[tuple[int, str, str], list[str | None]]
"""By axis (the serial number of its root), kind and place of a passage: the better kind of each op that noted it
there; None for an op that is what it was noted for."""


class Statistics:
    """Looks at the ops in the order of the run; `finish` at the end."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.resolved: Resolved = defaultdict(list)
        self._squares: dict[Value, None] = {}

    def see(self, number: int, op: Op) -> None:
        """Looks at one op."""
        if not op.results:
            return
        result, arguments = Value(op.results[0], number), op.arguments
        squared = op.name == "square" or (op.name == "pow" and _is_number(arguments.get("exponent"), 2))
        squared = squared or (op.name == "mul" and arguments["self"] == arguments["other"])
        if squared or (op.name in WHOLE and arguments["self"] in self._squares):
            self._squares[result] = None
        elif op.name == "pow":
            self._say("pointwise:power", op.where, result, None)
        elif op.name == "div":
            self._quotient(op, result)
        elif op.name in ("add", "sub") and not isinstance(arguments["other"], Value):
            pass  # a number: no sum of activations
        elif op.name in ("add", "sub", "addmm", "baddbmm"):
            self._say("residual", op.where, result, "terms" if self._of_one_value(op) else None)

    def say(self, kind: str, where: str, nodes: Iterable[Node], better: str | None) -> None:
        """Notes what an op is for the axes of these nodes."""
        leaves = [leaf for node in nodes for leaf in leaf_nodes(self.graph.axes, node)]
        for serial in dict.fromkeys(map(self.graph.serial, leaves)):
            self.resolved[serial, kind, where].append(better)

    def is_square(self, value: object) -> bool:
        """Whether a value holds the squares of another."""
        return value in self._squares

    def finish(self) -> Resolved:
        """All that was found."""
        for value in self._squares:
            op = self.graph.ops[value.number]
            if op.name not in WHOLE:
                kind = "pointwise:power" if op.name == "pow" else "pointwise:square"
                self._say(kind, op.where, value, "statistic" if self._only_summed(value) else None)
        return self.resolved

    def _say(self, kind: str, where: str, value: Value, better: str | None) -> None:
        self.say(kind, where, (node for dim in self.graph.dims(value) for node in dim), better)

    def _only_summed(self, value: Value) -> bool:
        if value in self.graph.outputs or self.graph.changed_behind(value):
            return False
        for number in self.graph.readers(value):
            op = self.graph.ops[number]
            passed = op.name in WHOLE and all(map(self._only_summed, self.graph.results(number)))
            if not passed and op.name not in ("sum", "mean"):
                return False
        return True

    def _quotient(self, op: Op, result: Value) -> None:
        """The divisor is one for all units of an axis if it was expanded along it."""
        divisor = op.arguments["other"]
        made = self.graph.maker(divisor) if isinstance(divisor, Value) else None
        even = made is not None and made.name == "expand" and not op.arguments.get("rounding_mode")
        before = made.arguments["self"] if made is not None and even else divisor
        held = {self.graph.serial(leaf) for dim in self._leaves(before) for leaf in dim}
        for leaf in (leaf for dim in self._leaves(result) for leaf in dim):
            serial = self.graph.serial(leaf)
            better = "statistic" if even and serial not in held else None
            self.resolved[serial, "pointwise:div", op.where].append(better)

    def _leaves(self, value: object) -> list[list[Node]]:
        return self.graph.leaves(value) if isinstance(value, Value) else []

    def _of_one_value(self, op: Op) -> bool:
        """Whether both terms of a sum are functions of one value, entry by entry, such as x + x ** 3."""
        first, second = op.arguments["self"], op.arguments.get("other")
        if not (isinstance(first, Value) and isinstance(second, Value)):
            return False
        return bool(self._entrywise_origins(first) & self._entrywise_origins(second))

    def _entrywise_origins(self, value: Value) -> set[Value]:
        """The value, and those of which it is a function, entry by entry and without other activations."""
        found = {value}
        op = self.graph.maker(value)
        while op is not None and op.name in _ENTRYWISE:
            active = {x for x in op.values() if self.graph.nature(x) is Nature.ACTIVATION}
            if len(active) != 1:
                break
            value = active.pop()
            found.add(value)
            op = self.graph.maker(value)
        return found


def _is_number(value: object, number: float) -> bool:
    return isinstance(value, int | float) and value == number
