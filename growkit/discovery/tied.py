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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.node import Dim, Node
from growkit.axes.reading import leaf_nodes
from growkit.axes.union_find import Axes
from growkit.discovery.call import Call, Nature

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


class Scales:
    """Which parameters scale an activation, and what else reads it."""

    def __init__(self) -> None:
        self._same: dict[int, int] = {}
        self._shifted: dict[int, list[Dim]] = {}
        """Parameters with a number added, and the dims of the parameter."""
        self._readers: Counter[int] = Counter()
        self._written: dict[int, _Written] = {}
        self._contracted: list[tuple[Dim, int]] = []
        """Dims of parameters, and the activation that each was contracted with."""
        self.silent: list[Node] = []
        """Occurrences beside a tied tensor in which new units of the axis are zero."""

    def op(self, call: Call, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> None:
        """Notes one op."""
        given, made = list(inputs), list(outputs)
        if call.op in _SAME and len(made) == 1 and made[0] is not given[0]:
            self._same[id(made[0])] = self._origin(given[0])
            if made[0].shape == given[0].shape and id(given[0]) in self._shifted:
                self._shifted[id(made[0])] = self._shifted[id(given[0])]
            return
        if _adds_a_number(call) and call.known(given[0]).nature is Nature.WEIGHT and made[0] is not given[0]:
            self._same[id(made[0])] = self._origin(given[0])  # what scales it scales the sum: see `shifted_parameters`
            self._shifted[id(made[0])] = call.known(given[0]).dims
            return
        results = set(map(id, made))
        for tensor in given:
            self._readers[self._origin(tensor)] += 2 if id(tensor) in results else 1
        if made:
            written = self._contraction(call) if call.op in _PRODUCTS else self._scaling(call)
            if written is not None:
                self._written[id(made[0])] = written

    def output(self, tensor: Tensor) -> None:
        """Notes a result of the model."""
        self._readers[self._origin(tensor)] += 1

    def separate(self, axes: Axes, held: Mapping[str, list[Dim]]) -> None:
        """Gives tied tensors one role, and what scales their reading the other, where that is possible."""
        for dims in held.values():
            for leaf in (leaf for dim in dims for leaf in leaf_nodes(axes, dim[0])):
                if set(leaf.roles) == {Role.PRODUCES, Role.CONSUMES}:
                    scales = self._scales_of(axes, leaf)
                    if scales:
                        leaf.roles = {Role.PRODUCES: None}
                        for scale in scales:
                            gain = Role.GAIN in scale.roles
                            scale.roles = {Role.READOUT if gain else Role.CONSUMES: None}
                            if not gain:  # it would add to what the tied tensor reads
                                self.silent.append(scale)

    def _scales_of(self, axes: Axes, tied: Node) -> list[Node]:
        """What scales everything that the tied tensor reads; empty if something else reads it, or nothing scales it."""
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

    def _origin(self, tensor: Tensor) -> int:
        return self._same.get(id(tensor), id(tensor))

    def _parameter(self, call: Call, tensor: Tensor) -> tuple[int, tuple[Dim, ...]]:
        return self._origin(tensor), tuple(self._shifted.get(id(tensor)) or call.known(tensor).dims)

    def _scaling(self, call: Call) -> _Written | None:
        arguments = call.arguments
        if "norm" in call.op and isinstance(arguments.get("weight"), Tensor):
            held = [x for x in (arguments["weight"], arguments.get("bias")) if isinstance(x, Tensor)]
            return _Written(tuple(self._parameter(call, x) for x in held), None)
        if call.op not in ("add", "mul"):
            return None
        operands = [x for x in (arguments["self"], arguments["other"]) if isinstance(x, Tensor)]
        active = [x for x in operands if call.known(x).nature is Nature.ACTIVATION]
        weights = [x for x in operands if call.known(x).nature is Nature.WEIGHT]
        if len(active) != 1 or len(active) + len(weights) != len(operands):
            return None
        if not weights:  # a number: a factor changes nothing here, a term does
            return _Written((), self._origin(active[0])) if call.op == "mul" else None
        before = None if call.op == "mul" else self._origin(active[0])
        return _Written((self._parameter(call, weights[0]),), before)

    def _contraction(self, call: Call) -> _Written | None:
        left, right = (call[name] for name in _PRODUCTS[call.op])
        a, b = call.known(left), call.known(right)
        if {a.nature, b.nature} != {Nature.WEIGHT, Nature.ACTIVATION}:
            return None
        if a.nature is Nature.WEIGHT:
            weight, read, made, activation = left, a.dims[-1], a.dims[-2], right
        else:
            weight, read, made, activation = right, b.dims[-2], b.dims[-1], left
        self._contracted.append((read, self._origin(activation)))
        parameters: list[tuple[int, tuple[Dim, ...]]] = [(self._origin(weight), (made,))]
        bias = call["self"] if call.op in ("addmm", "baddbmm") else None
        if bias is not None:
            if call.known(bias).nature is not Nature.WEIGHT:
                return None
            parameters.append(self._parameter(call, bias))
        return _Written(tuple(parameters), None)


def _adds_a_number(call: Call) -> bool:
    if call.op != "add" or call.arguments.get("alpha", 1) != 1:
        return False
    return isinstance(call["self"], Tensor) and isinstance(call["other"], int | float)
