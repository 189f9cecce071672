"""Whether units that carry the mean of the others stay harmless: zero wherever a weight reads them.

A layer norm makes such a unit zero, whatever it holds. So an axis may be padded by means if every weight that reads it
stands behind a norm that takes the mean away, and everything before it keeps means: sums of writers, no gain, no
function of single units.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from growkit.axes.axis import Passage
from growkit.axes.expressions import Role
from growkit.axes.node import Node
from growkit.discovery.call import Nature
from growkit.discovery.graph import PARTIAL, WHOLE, Graph
from growkit.discovery.operations import Op, Value

_KEEP = WHOLE | PARTIAL | {"neg", "dropout", "native_dropout", "index"}
_WRITERS = frozenset({"mm", "bmm", "mv", "addmm", "baddbmm", "convolution", "embedding"})
_READERS = {"mm": "self mat2", "bmm": "self mat2", "addmm": "mat1 mat2", "baddbmm": "batch1 batch2", "mv": "self vec"}


class _State(Enum):
    """What a new unit holds: the mean of the others, or zero."""

    MEAN = "mean"
    ZERO = "zero"


class _Lost(Exception):
    """A place where a new unit becomes something else, or is read while it is not zero."""


def note_averages(graph: Graph) -> None:
    """Notes on every axis under a layer norm whether units that carry means may be added: `centred` or `uncentred`."""
    axes = graph.axes
    shared = {axes.root(node).serial: axes.shared(node) for node in axes.nodes if axes.parts(node) is None}
    for serial, found in shared.items():
        if found.named and any(p.kind in ("layer_norm", "mean_square") for p in found.passages):
            try:
                walk = _Walk(graph, serial)
            except _Lost as place:
                found.passages[Passage("uncentred", str(place))] = None
            else:
                if walk.centred:
                    found.passages[Passage("centred", "")] = None
                    for leaf, state in walk.added.items():
                        if state is _State.ZERO:  # a norm that is written out: nothing else tells its bias
                            leaf.roles = {Role.BIAS: None}


class _Walk:
    """One axis through the run."""

    def __init__(self, graph: Graph, serial: int):
        self.graph, self.serial = graph, serial
        self.centred = False
        """Whether some norm takes the mean away."""
        self.added: dict[Node, _State] = {}
        """Occurrences in parameters that are added to activations, and what new units hold there."""
        self._states: dict[Value, _State] = {}
        for number, op in enumerate(graph.ops):
            holding = [value for value in dict.fromkeys(op.values()) if self._holds(value)]
            made = [value for value in graph.results(number) if self._holds(value)]
            if not holding and not made:
                continue
            state = self._after(op, [x for x in holding if graph.nature(x) is Nature.ACTIVATION], bool(made))
            for value in made:
                if state is None and graph.nature(value) is Nature.ACTIVATION:
                    raise _Lost(op.where)
                if state is not None:
                    self._states[value] = state

    def _holds(self, value: Any) -> bool:
        if not isinstance(value, Value) or self.serial not in self.graph.serials(value):
            return False
        for dim in self.graph.leaves(value):
            if len(dim) > 1 and any(self.graph.serial(leaf) == self.serial for leaf in dim):
                raise _Lost("a dim that holds other axes too")
        return True

    def _after(self, op: Op, active: Sequence[Value], makes: bool) -> _State | None:
        """The state of what an op makes; None if it makes nothing of the axis.

        Raises:
            _Lost: the state is lost.
        """
        name, arguments = op.name, op.arguments
        if not active:
            if makes and name not in _WRITERS | WHOLE | PARTIAL:
                return None
            return _State.MEAN if makes else None
        if name == "native_layer_norm":
            self._norm(op)
            return _State.ZERO
        if name in ("add", "sub"):
            return self._sum(op, arguments["self"], arguments["other"])
        if name in ("mul", "div"):
            return self._product(op, arguments["self"], arguments["other"])
        states = {self._state(value, op) for value in active}
        if name in _READERS or name == "convolution":
            if not self._read(op, states):
                raise _Lost(op.where)
            return _State.MEAN if makes else None
        if name in ("mean", "sum", "square", "pow"):
            return self._statistic(op, states, makes)
        kept = name in _KEEP or (name in ("cat", "stack") and len(active) == len(list(op.values())))
        if name == "masked_fill" and arguments.get("value") == 0:
            kept = True
        if not kept or len(states) > 1 or (not makes and name in PARTIAL):
            raise _Lost(op.where)
        return states.pop() if makes else None

    def _state(self, value: Value, op: Op) -> _State:
        if value not in self._states:
            raise _Lost(op.where)
        return self._states[value]

    def _norm(self, op: Op) -> None:
        """The norm is taken over the axis and nothing else, and what is added after it is zero for new units."""
        count = len(op.arguments["normalized_shape"])
        dims = self.graph.leaves(op.arguments["input"])
        if count != 1 or [self.graph.serial(leaf) for leaf in dims[-1]] != [self.serial]:
            raise _Lost(op.where)
        self._state(op.arguments["input"], op)
        self.centred = True

    def _sum(self, op: Op, first: Any, second: Any) -> _State:
        if not self._holds(first):
            first, second = second, first
        if self.graph.nature(first) is not Nature.ACTIVATION:
            first, second = second, first
        state = self._state(first, op)
        if not isinstance(second, Value):
            if state is _State.MEAN or second == 0:
                return state
        elif not self._holds(second):
            if state is _State.MEAN and self._is_mean(second, first) and op.name == "sub":
                self.centred = True
                return _State.ZERO
            if state is _State.MEAN:
                return state
        elif self.graph.nature(second) is Nature.ACTIVATION:
            if self._state(second, op) is state:
                return state
        else:
            leaves = list(self.graph.of_axis(second, self.serial))
            roles = {role for leaf in leaves for role in leaf.roles}
            same = all(self.added.setdefault(leaf, state) is state for leaf in leaves)
            if same and roles in ({Role.PRODUCES}, {Role.BIAS} if state is _State.ZERO else {Role.PRODUCES}):
                return state
        raise _Lost(op.where)

    def _is_mean(self, value: Value, of: Value) -> bool:
        op = self.graph.maker(value)
        while op is not None and op.name in WHOLE:
            op = self.graph.maker(op.arguments["self"])
        return op is not None and op.name == "mean" and op.arguments["self"] == of

    def _product(self, op: Op, first: Any, second: Any) -> _State:
        operands = [x for x in (first, second) if self._holds(x)]
        states = [self._state(x, op) for x in operands if self.graph.nature(x) is Nature.ACTIVATION]
        if op.name == "div" and self._holds(second):
            raise _Lost(op.where)
        if _State.ZERO in states:
            return _State.ZERO
        if len(operands) > 1:
            raise _Lost(op.where)
        return states[0]

    def _read(self, op: Op, states: set[_State]) -> bool:
        """Whether what is contracted over the axis is zero in new units."""
        names = _READERS.get(op.name, "input weight").split()
        natures = [self.graph.nature(op.arguments[name]) for name in names]
        holding = [self._holds(op.arguments[name]) for name in names]
        return sum(holding) == 2 and Nature.WEIGHT in natures and states == {_State.ZERO}

    def _statistic(self, op: Op, states: set[_State], makes: bool) -> _State | None:
        if op.name in ("square", "pow"):
            if states != {_State.ZERO}:
                raise _Lost(op.where)
            return _State.ZERO
        if makes:  # over other dims
            return states.pop()
        squared = self.graph.maker(op.arguments["self"])
        of_squares = squared is not None and squared.name in ("square", "pow", "mul")
        # the mean of means is the mean; a sum of squares takes zeros for nothing
        if (states == {_State.MEAN} and op.name == "mean") or (states == {_State.ZERO} and of_squares):
            return None
        raise _Lost(op.where)
