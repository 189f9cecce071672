"""What the lengths beside a weight norm take when the norm of their direction changes: `g * v / |v|`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from growkit.axes.axis import Correction, Occurrence
from growkit.discovery.derived import Normed
from growkit.discovery.graph import Graph
from growkit.discovery.operations import Value

_NORMS = frozenset({"_weight_norm", "_weight_norm_interface"})


def length_corrections(
    graph: Graph, normed: Iterable[Normed], places: Mapping[int, Occurrence]
) -> dict[int, tuple[Correction, ...]]:
    """By the serial number of each axis in such a norm, the factor by which it changes |v|, which g takes.

    A unit that v produces adds the square of its scale, one that it consumes the square of its share, energy / 1 or
    1 / energy, and one of which it has copies adds their number. `places`: where each node of a parameter is.
    """
    found: dict[int, dict[Correction, None]] = defaultdict(dict)
    for norm in normed:
        at = places.get(id(norm.length)) if norm.length is not None and _alone(graph, norm) else None
        for serial, (produced, consumed, copied) in norm.counts.items():
            if norm.scaled:
                found[serial][Correction(at, norm.where, size=copied / 2, energy=(produced - consumed) / 2)] = None
    return {serial: tuple(entries) for serial, entries in found.items()}


def _alone(graph: Graph, norm: Normed) -> bool:
    """Whether the run reads the lengths as those of one direction, and nothing else."""
    ops = [graph.ops[number] for number in graph.readers(Value(norm.lengths, -1))]
    return all(op.name in _NORMS for op in ops) and len({op.arguments.get("v") for op in ops}) == 1
