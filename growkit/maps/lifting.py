"""From maps of axes to the map of one dimension, through products and concatenations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

from growkit.axes.expressions import Concat, Expression, Fixed, Leaf, Product, Role, leaves, size
from growkit.maps.axis_map import NEW, AxisMap
from growkit.maps.methods.method import Fill, Method


@dataclass(frozen=True)
class GrownAxis:
    """One axis that grows: its map, and the method that says what new units start as."""

    map: AxisMap
    method: Method


@dataclass(frozen=True)
class Change:
    """What one occurrence of an axis takes beside its map: a factor, or zeros in new units."""

    factor: float = 1.0
    silent: bool = False


@dataclass(frozen=True)
class DimMap:
    """How one dimension of one tensor grows; one entry per new position.

    `source`: old position, -1 where the position is new; `value` and `gradient`: factors of the entries
    of the tensor and of its gradient (`gradient` is None for tensors without one, such as running
    statistics); `fill`: what a new position starts as, None where it is not new.
    """

    old_size: int
    source: tuple[int, ...]
    value: tuple[float, ...]
    gradient: tuple[float, ...] | None
    fill: tuple[Fill | None, ...]

    def positions(self, fill: Fill) -> tuple[int, ...]:
        """New positions that start as `fill`."""
        return tuple(j for j, f in enumerate(self.fill) if f is fill)

    @property
    def new(self) -> int:
        """Number of positions that come from no old one."""
        return self.source.count(NEW)


def count_new(shape: Sequence[int], dims: Sequence[DimMap | None]) -> int:
    """Number of entries of a grown tensor that come from no old one; `shape` before or after the growth."""
    sizes = [size if dim is None else len(dim.source) for size, dim in zip(shape, dims, strict=True)]
    old = [size - (dim.new if dim else 0) for size, dim in zip(sizes, dims, strict=True)]
    return prod(sizes) - prod(old)


def lift(
    dim: Expression,
    sizes: Mapping[str, int],
    grown: Mapping[str, GrownAxis],
    changes: Mapping[int, Change] | None = None,
) -> DimMap | None:
    """The map of a whole dimension; None if none of its axes grows or takes a factor.

    Args:
        dim: the dimension.
        sizes: old size of every axis in it.
        grown: the axes that grow.
        changes: by the number of the leaf in the dimension.

    Law: the position of a product is row-major; factors of a product multiply, and an entry is new if any
    factor is new. Source: Kronecker product of the axis maps.
    """
    if not changes and not any(leaf.axis in grown for leaf in leaves(dim)):
        return None
    return _lift(dim, sizes, grown, changes or {}, count())


def _lift(
    dim: Expression,
    sizes: Mapping[str, int],
    grown: Mapping[str, GrownAxis],
    changes: Mapping[int, Change],
    numbers: Iterator[int],
) -> DimMap:
    match dim:
        case Leaf(axis, role):
            change = changes.get(next(numbers), Change())
            return _leaf(grown[axis], role, change) if axis in grown else _unchanged(sizes[axis], role, change.factor)
        case Fixed(number):
            return _unchanged(number, Role.PRODUCES)
        case Product(factors):
            lifted = _unchanged(1, Role.PRODUCES)
            for factor in factors:
                lifted = _times(lifted, _lift(factor, sizes, grown, changes, numbers))
            return lifted
        case Concat(parts):
            return _join([_lift(part, sizes, grown, changes, numbers) for part in parts], size(dim, sizes))


def _unchanged(number: int, role: Role | None, factor: float = 1.0) -> DimMap:
    gradient = None if role in (Role.MEAN, Role.VARIANCE) else (1 / factor,) * number
    return DimMap(number, tuple(range(number)), (factor,) * number, gradient, (None,) * number)


def _leaf(axis: GrownAxis, role: Role | None, change: Change) -> DimMap:
    has_gradient = role not in (Role.MEAN, Role.VARIANCE, None)
    fill = axis.method.fills[role] if role is not None and axis.map.has_new else None
    return DimMap(
        axis.map.old_size,
        axis.map.source,
        tuple(value * change.factor for value in axis.map.value_factors(role)),
        tuple(g / change.factor for g in axis.map.gradient_factors(role)) if has_gradient else None,
        tuple((Fill.ZERO if change.silent else fill) if unit == NEW else None for unit in axis.map.source),
    )


def _times(major: DimMap, minor: DimMap) -> DimMap:
    pairs = [(i, j) for i in range(len(major.source)) for j in range(len(minor.source))]
    gradient = None
    if major.gradient is not None and minor.gradient is not None:
        gradient = tuple(major.gradient[i] * minor.gradient[j] for i, j in pairs)

    def source(i: int, j: int) -> int:
        if NEW in (major.source[i], minor.source[j]):
            return NEW
        return major.source[i] * minor.old_size + minor.source[j]

    def fill(i: int, j: int) -> Fill | None:
        both = (major.fill[i], minor.fill[j])
        return Fill.ZERO if Fill.ZERO in both else both[0] or both[1]

    return DimMap(
        major.old_size * minor.old_size,
        tuple(source(i, j) for i, j in pairs),
        tuple(major.value[i] * minor.value[j] for i, j in pairs),
        gradient,
        tuple(fill(i, j) for i, j in pairs),
    )


def _join(parts: list[DimMap], old_size: int) -> DimMap:
    source: list[int] = []
    offset = 0
    for part in parts:
        source += [NEW if unit == NEW else unit + offset for unit in part.source]
        offset += part.old_size
    gradients = [part.gradient for part in parts]
    return DimMap(
        old_size,
        tuple(source),
        tuple(v for part in parts for v in part.value),
        None if None in gradients else tuple(g for gradient in gradients if gradient for g in gradient),
        tuple(f for part in parts for f in part.fill),
    )
