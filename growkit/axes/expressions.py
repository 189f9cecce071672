"""What one dimension of a tensor is made of: axes, products of axes, and concatenations.

A dimension is row-major: in a product the last factor varies fastest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import prod


class Role(Enum):
    """What an axis does in one dimension of one tensor."""

    PRODUCES = "produces"
    """A free output of the tensor: rows of a weight, a bias added to the output."""
    CONSUMES = "consumes"
    """Contracted with an activation: columns of a weight."""
    GAIN = "gain"
    """Multiplies an activation unit by unit: the weight of a norm, a depthwise kernel."""
    BIAS = "bias"
    """Added right after a gain of the same axis: the bias of a norm."""
    READOUT = "readout"
    """A gain right before a tied tensor reads the axis that it writes too: it takes the share of the reading."""
    MEAN = "mean"
    """Running mean of the units."""
    VARIANCE = "variance"
    """Running variance of the units."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One occurrence of an axis. `role` is None where the axis only labels the dimension."""

    axis: str
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number of entries that belongs to no axis and never changes."""

    size: int


@dataclass(frozen=True, slots=True)
class Product:
    """Row-major product of the factors."""

    factors: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Concat:
    """The parts one after the other."""

    parts: tuple[Expression, ...]


Expression = Leaf | Fixed | Product | Concat


def size(expression: Expression, sizes: Mapping[str, int]) -> int:
    """Number of entries, given the size of each axis."""
    match expression:
        case Leaf(axis):
            return sizes[axis]
        case Fixed(number):
            return number
        case Product(factors):
            return prod(size(f, sizes) for f in factors)
        case Concat(parts):
            return sum(size(p, sizes) for p in parts)


def leaves(expression: Expression) -> Iterator[Leaf]:
    """The leaves from left to right. An axis that occurs twice comes twice."""
    match expression:
        case Leaf():
            yield expression
        case Product(children) | Concat(children):
            for child in children:
                yield from leaves(child)


def rename(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The same expression over other axis names; names that are not in the mapping stay."""
    match expression:
        case Leaf(axis, role):
            return Leaf(names.get(axis, axis), role)
        case Product(factors):
            return Product(tuple(rename(f, names) for f in factors))
        case Concat(parts):
            return Concat(tuple(rename(p, names) for p in parts))
    return expression


def without_roles(expression: Expression) -> Expression:
    """The same size: roles do not matter to it."""
    match expression:
        case Leaf(axis):
            return Leaf(axis)
        case Product(factors):
            return Product(tuple(map(without_roles, factors)))
        case Concat(parts):
            return Concat(tuple(map(without_roles, parts)))
    return expression
