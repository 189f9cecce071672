"""What the factors of a run say about the axes: better known passages, corrections, silent units, shifts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction

from growkit.axes.axis import Correction, Lock, Occurrence, Passage
from growkit.axes.node import Node
from growkit.axes.reading import leaf_nodes
from growkit.axes.union_find import Axes
from growkit.discovery.call import OTHERS, Nature
from growkit.discovery.cuts import Leaf
from growkit.discovery.graph import WHOLE, Graph
from growkit.discovery.operations import Value, shift_of
from growkit.discovery.scaling import Factor, Scaling
from growkit.discovery.statistics import Resolved


def rename_passages(axes: Axes, resolved: Resolved) -> None:
    """Puts the better known kinds of a passage in its place, where all ops that noted it on an axis have one.

    After `settle`: parts have the passages of what they are parts of, which lets go of them.
    """
    for shared in (axes.shared(node) for node in axes.nodes):
        if shared.parts:
            shared.passages = {}
    better: dict[int, dict[Passage, list[Passage]]] = defaultdict(dict)
    for (serial, kind, where), kinds in resolved.items():
        found = [kind for kind in dict.fromkeys(kinds) if kind is not None]
        if None not in kinds:
            better[serial][Passage(kind, where)] = [Passage(one, where) for one in found]
    for serial, of_axis in better.items():
        shared = axes.shared(axes.nodes[serial])
        renamed = [x for passage in shared.passages for x in of_axis.get(passage, [passage])]
        shared.passages = dict.fromkeys(renamed)


def corrections(
    scaling: Scaling, places: Mapping[int, Occurrence], tied: Iterable[Node]
) -> tuple[dict[int, tuple[Correction, ...]], dict[int, tuple[Occurrence, ...]]]:
    """The corrections and the silent occurrences of each axis, by the serial number of its root.

    `places`: where each node of a parameter is; `tied`: occurrences beside a tied tensor that are silent.
    """
    found: dict[int, dict[Correction, None]] = defaultdict(dict)
    floats: dict[str, list[Factor]] = defaultdict(list)
    for target, _, factor in scaling.corrections:
        if isinstance(target, str):
            floats[target].append(factor)
    for target, where, factor in scaling.corrections:
        at: Occurrence | str | None = places.get(id(target.node)) if isinstance(target, Leaf) else target
        if isinstance(at, str):  # one float for norms of different axes, or for something else too
            uses = floats[at]
            at = at if all(one == factor for one in uses) and scaling.floats.only(at, len(uses)) else None
        for serial, powers in _by_axis(factor).items():
            mine = isinstance(target, Leaf) and scaling.graph.serial(target.node) == serial
            exact = {symbol: float(power) for symbol, power in powers.items()}
            # a factor of one axis may not be put on an occurrence of another, which grows on its own
            if isinstance(at, str):
                if any(one.target == at for one in found[serial]):  # given to several ops, it takes the factor once
                    continue
                correction = Correction(at, where, **exact, value=scaling.floats.value(at))
            else:
                correction = Correction(at if mine else None, where, **exact)
            found[serial][correction] = None
    silent: dict[int, dict[Occurrence, None]] = defaultdict(dict)
    for node in (*(leaf.node for leaves in scaling.silent.values() for leaf in leaves), *tied):
        if id(node) in places:
            silent[scaling.graph.serial(node)][places[id(node)]] = None
    return (
        {serial: tuple(entries) for serial, entries in found.items()},
        {serial: tuple(entries) for serial, entries in silent.items()},
    )


def shifted_parameters(graph: Graph, axes: Axes) -> dict[str, float]:
    """Parameters that are used as a number plus the parameter, such as a gain of 1 + weight, and the number."""
    shifts: dict[str, set[float]] = defaultdict(set)
    for tensor, name in graph.parameters.items():
        waiting = [Value(tensor, -1)]
        while waiting:
            value = waiting.pop()
            for number in graph.readers(value):
                op = graph.ops[number]
                shift = shift_of(op)
                if op.name in WHOLE and graph.nature(value) is Nature.WEIGHT:
                    waiting += graph.results(number)
                else:
                    shifts[name].add(shift[1] if shift and graph.nature(value) is Nature.WEIGHT else 0.0)
    for name, numbers in shifts.items():
        if len(numbers) > 1:
            lock = Lock("a parameter of it is used as it is, and with a number added", name, OTHERS)
            tensor = next(t for t, n in graph.parameters.items() if n == name)
            axes.lock([node for dim in graph.dims(Value(tensor, -1)) for node in dim if node.size != 1], lock)
    return {name: numbers.pop() for name, numbers in shifts.items() if len(numbers) == 1 and numbers != {0.0}}


def places_of(axes: Axes, held: Mapping[str, list[list[Node]]]) -> dict[int, Occurrence]:
    """Where each whole occurrence is, by the identity of its node."""
    found = {}
    for name, dims in held.items():
        for d, dim in enumerate(dims):
            nodes = leaf_nodes(axes, dim[0])
            for position, node in enumerate(nodes):
                role = next(iter(node.roles)) if len(node.roles) == 1 else None
                found[id(node)] = Occurrence(name, d, position, None if len(nodes) == 1 else position, role)
    return found


def _by_axis(factor: Factor) -> dict[int, dict[str, Fraction]]:
    found: dict[int, dict[str, Fraction]] = defaultdict(dict)
    for (symbol, serial), power in factor.items():
        found[serial][symbol] = power
    return found
