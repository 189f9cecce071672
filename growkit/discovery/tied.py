"""Tensors that write an axis in one place and read it in another: an embedding that is the head as well.

Grown by k copies of each unit, what it reads would count k times, and its entries cannot be divided, since it writes
them too. Where the activation that it reads comes straight out of a norm, the gain and bias of the norm are divided
instead: the bias takes the role of what consumes the axis, the gain one of its own, and the tied tensor only produces
it. The same holds for the weight and bias of a linear layer. Both uses of the tensor then give it gradients divided by
k, so moments move exactly.

Source: Shen et al. 2022, Staged Training (arXiv 2203.06211), section 3.1: the last norm is halved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from growkit.axes.expressions import Role
from growkit.axes.node import Dim, Node
from growkit.axes.reading import leaf_nodes
from growkit.discovery.call import Nature
from growkit.discovery.graph import Graph
from growkit.discovery.operations import Op, Value, shift_of

_SAME = frozenset(
    (
        "view", "_unsafe_view", "reshape", "_reshape_alias", "t", "transpose", "permute", "unsqueeze", "squeeze",
        "clone", "detach", "alias", "_to_copy",
    )
)  # fmt: skip
"""Ops whose result has the entries of their operand."""
_PRODUCTS = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"),
}


@dataclass(frozen=True, slots=True)
class _Written:
    """The last thing that was done to an activation: parameters that scale it, and what it was before.

    `before` is None where the parameters scale all of it: the gain and bias of a norm, a weight and its bias.
    """

    parameters: tuple[tuple[int, tuple[Dim, ...]], ...]
    before: int | None


def separate(graph: Graph, nature: Callable[[int], Nature], held: Mapping[str, list[Dim]]) -> list[Node]:
    """Gives tied tensors one role, and what scales their reading the other, where that is possible.

    `nature`: what a tensor depends on; `held`: the dims of parameters and buffers. Gives the occurrences beside a tied
    tensor in which new units of the axis are zero: they would add to what it reads.
    """
    leaves = (leaf for dims in held.values() for dim in dims for leaf in leaf_nodes(graph.axes, dim[0]))
    tied = [leaf for leaf in leaves if leaf.roles.keys() == {Role.PRODUCES, Role.CONSUMES}]
    found = _Scales(graph, nature) if tied else None
    silent = []
    for leaf in tied:
        scales = found.of(leaf) if found else []
        if scales:
            leaf.roles = {Role.PRODUCES: None}
        for scale in scales:
            gain = Role.GAIN in scale.roles
            scale.roles = {Role.READOUT if gain else Role.CONSUMES: None}
            silent += [] if gain else [scale]
    return silent


class _Scales:
    """Which parameters scale an activation, and what else reads it."""

    def __init__(self, graph: Graph, nature: Callable[[int], Nature]) -> None:
        self._graph, self._nature = graph, nature
        self._same: dict[int, int] = {}
        self._shifted: dict[int, list[Dim]] = {}
        """Parameters with a number added, and the dims of the parameter."""
        self._readers: Counter[int] = Counter()
        self._written: dict[int, _Written] = {}
        self._contracted: list[tuple[Dim, int]] = []
        """Dims of parameters, and the activation that each was contracted with."""
        for op in graph.ops:
            if op.values():
                self._note(op)
        for output in graph.outputs:
            self._readers[self._origin(output)] += 1

    def _note(self, op: Op) -> None:
        first, made = op.values()[0], op.results[0] if op.results else None
        if made is not None and made != first.tensor:
            if op.name in _SAME and len(op.results) == 1:
                self._same[made] = self._origin(first)
                if first.tensor in self._shifted and self._sizes(made) == self._sizes(first.tensor):
                    self._shifted[made] = self._shifted[first.tensor]
                return
            if shift_of(op) and self._nature(first.tensor) is Nature.WEIGHT:
                self._same[made] = self._origin(first)  # what scales it scales the sum: see `shifted_parameters`
                self._shifted[made] = self._dims(first.tensor)
                return
        for value in op.values():
            self._readers[self._origin(value)] += 2 if value.tensor in op.results else 1
        if made is not None:
            written = self._contraction(op) if op.name in _PRODUCTS else self._scaling(op)
            if written is not None:
                self._written[made] = written

    def of(self, tied: Node) -> list[Node]:
        """What scales everything that a tied tensor reads; empty if something else reads it, or nothing scales it."""
        axes = self._graph.axes
        found: list[Node] = []
        for dim, activation in self._contracted:
            if any(tied is leaf for node in dim for leaf in leaf_nodes(axes, node)):
                for parameter, dims in self._parameters(activation):
                    nodes = [leaf for d in dims for node in d for leaf in leaf_nodes(axes, node)]
                    scales = [leaf for leaf in nodes if axes.root(leaf) is axes.root(tied) and len(leaf.roles) == 1]
                    if len(scales) != 1 or self._readers[parameter] != 1:
                        return []
                    found += scales
                if not found:
                    return []
        return found

    def _parameters(self, activation: int | None) -> Iterator[tuple[int, tuple[Dim, ...]]]:
        """The parameters that scale an activation which is read once; nothing that could be used if there are none."""
        while activation is not None:
            written = self._written.get(activation)
            if written is None or self._readers[activation] != 1:
                yield -1, ()  # a scale that nothing has
                return
            yield from written.parameters
            activation = written.before

    def _dims(self, tensor: int) -> list[Dim]:
        known = self._graph.known(tensor)
        return known.dims if known else []

    def _sizes(self, tensor: int) -> list[int]:
        return [prod(node.size for node in dim) for dim in self._dims(tensor)]

    def _origin(self, value: Value) -> int:
        return self._same.get(value.tensor, value.tensor)

    def _parameter(self, value: Value) -> tuple[int, tuple[Dim, ...]]:
        return self._origin(value), tuple(self._shifted.get(value.tensor) or self._dims(value.tensor))

    def _scaling(self, op: Op) -> _Written | None:
        arguments = op.arguments
        if "norm" in op.name and isinstance(arguments.get("weight"), Value):
            held = [x for x in (arguments["weight"], arguments.get("bias")) if isinstance(x, Value)]
            return _Written(tuple(map(self._parameter, held)), None)
        if op.name not in ("add", "mul"):
            return None
        operands = [x for x in (arguments["self"], arguments["other"]) if isinstance(x, Value)]
        active = [x for x in operands if self._nature(x.tensor) is Nature.ACTIVATION]
        weights = [x for x in operands if self._nature(x.tensor) is Nature.WEIGHT]
        if len(active) != 1 or len(active) + len(weights) != len(operands):
            return None
        if not weights:  # a number: a factor changes nothing here, a term does
            return _Written((), self._origin(active[0])) if op.name == "mul" else None
        before = None if op.name == "mul" else self._origin(active[0])
        return _Written((self._parameter(weights[0]),), before)

    def _contraction(self, op: Op) -> _Written | None:
        left, right = (op.arguments[name] for name in _PRODUCTS[op.name])
        if {self._nature(left.tensor), self._nature(right.tensor)} != {Nature.WEIGHT, Nature.ACTIVATION}:
            return None
        if self._nature(left.tensor) is Nature.WEIGHT:
            weight, activation, (made, read) = left, right, self._dims(left.tensor)[-2:]
        else:
            weight, activation, (read, made) = right, left, self._dims(right.tensor)[-2:]
        self._contracted.append((read, self._origin(activation)))
        parameters: list[tuple[int, tuple[Dim, ...]]] = [(self._origin(weight), (made,))]
        if op.name in ("addmm", "baddbmm"):
            bias = op.arguments["self"]
            if self._nature(bias.tensor) is not Nature.WEIGHT:
                return None
            parameters.append(self._parameter(bias))
        return _Written(tuple(parameters), None)
