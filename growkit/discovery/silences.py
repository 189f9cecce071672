"""Which parameters make new units of an axis zero in a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from growkit.axes.node import Node
from growkit.discovery.cuts import MOST_WAYS, NOTHING, Cut, Cuts, Leaf
from growkit.discovery.operations import Op, Value


class Silences(Cuts):
    """What lies beside units that are zero need not be zero, and may be."""

    _leaves_others = False

    def silencing(self, value: Value, serial: int) -> tuple[Leaf, ...]:
        """Occurrences of the axis in parameters which, zero in new units, make these zero in `value`."""
        return next(self._silences(value, serial), ())

    def silencing_one(self, left: Value, right: Value, serial: int) -> tuple[Leaf, ...] | None:
        """As `silencing`, of one of two values alone; empty if whatever is known makes units of both zero.

        Were both zero, neither would have a gradient. None if nothing is known.
        """
        ways = [list(islice(self._silences(value, serial), MOST_WAYS)) for value in (left, right)]
        for ours, theirs in (ways, ways[::-1]):
            others = set().union(*theirs)
            if alone := next((way for way in ours if not others & set(way)), None):
                return alone
        return () if any(ways) else None

    def _silences(self, value: Value, serial: int) -> Iterator[tuple[Leaf, ...]]:
        nodes = tuple(self.graph.of_axis(value, serial))
        return (cut.leaves for cut in self._ways(value, serial, nodes) if cut.leaves)

    def _here(self, value: Value) -> Cut:
        return NOTHING  # what else reads it does not matter

    def _beside(self, op: Op, serial: int) -> Sequence[object]:
        held = [x for x in op.values() if any(True for _ in self.graph.of_axis(x, serial))]
        return held or super()._beside(op, serial)

    def _product(
        self, left: object, right: object, quotient: bool, serial: int, nodes: tuple[Node, ...]
    ) -> Iterator[Cut]:
        yield from super()._product(left, right, quotient, serial, nodes)
        for value in () if quotient else (left, right):  # beside a gain, which may be that of others too
            if isinstance(value, Value) and value not in self._factors(left, right):
                held = self._moved(value, serial, nodes)
                yield from self._ways(value, serial, held) if held else ()
