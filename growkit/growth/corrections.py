"""What parameters and floats take beside the maps of their axes, so that the function stays as it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import isclose

from growkit.axes.axis import Axis, Correction, Occurrence
from growkit.axes.table import AxisTable
from growkit.constraints.table import correction_factor
from growkit.growth.plan import FloatStep, LeafStep, WidthStep
from growkit.maps.axis_map import AxisMap
from growkit.maps.methods.table import method as method_of


def float_steps(table: AxisTable, steps: Iterable[WidthStep]) -> tuple[FloatStep, ...]:
    """The floats that take a factor."""
    factors: dict[str, float] = defaultdict(lambda: 1.0)
    values: dict[str, float] = {}
    for correction, factor in _factors(table, steps):
        if isinstance(correction.target, str) and correction.value is not None:
            factors[correction.target] *= factor
            values[correction.target] = correction.value
    return tuple(
        FloatStep(path, values[path], values[path] * factor) for path, factor in factors.items() if not _is_one(factor)
    )


def leaf_steps(table: AxisTable, steps: Iterable[WidthStep]) -> tuple[LeafStep, ...]:
    """The occurrences of growing axes that take a factor, or zeros for their new units."""
    steps = tuple(steps)
    factors: dict[Occurrence, float] = defaultdict(lambda: 1.0)
    for correction, factor in _factors(table, steps):
        if isinstance(correction.target, Occurrence):
            factors[correction.target] *= factor
    silent = {at for axis, axis_map in _grown(table, steps) if axis_map.has_new for at in axis.silent}
    exact = {at: 1.0 if _is_one(factor) else factor for at, factor in factors.items()}
    changed = [at for at in dict.fromkeys([*factors, *silent]) if at in silent or exact[at] != 1.0]
    return tuple(LeafStep(at.tensor, at.dim, at.position, exact.get(at, 1.0), at in silent) for at in changed)


def _is_one(factor: float) -> bool:
    """Up to the rounding of powers such as 2 ** 0.5 * 2 ** -0.5, by which no weight must change."""
    return isclose(factor, 1.0, rel_tol=1e-12)


def _factors(table: AxisTable, steps: Iterable[WidthStep]) -> Iterator[tuple[Correction, float]]:
    for axis, axis_map in _grown(table, steps):
        for correction in axis.corrections:
            factor = correction_factor(correction, axis_map)
            if factor is not None:
                yield correction, factor


def _grown(table: AxisTable, steps: Iterable[WidthStep]) -> Iterator[tuple[Axis, AxisMap]]:
    for step in steps:
        # sums over a map do not depend on what is drawn in it
        yield table.by_name[step.axis], method_of(step.method).make(step.old, step.new, "")
