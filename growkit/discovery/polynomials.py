"""Sizes as polynomials over axes, to follow arithmetic on them exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import reduce

from growkit.axes.expressions import Concat, Expression, Fixed, Leaf, Product
from growkit.axes.node import Join, Node
from growkit.axes.union_find import Axes

Polynomial = Mapping[tuple[int, ...], int]
"""Coefficient of each monomial; a monomial is the sorted serial numbers of its axes."""


def constant(value: int) -> Polynomial:
    """A number that depends on no axis."""
    return {(): value} if value else {}


def size_of(axes: Axes, dim: Iterable[Node]) -> Polynomial:
    """The size of a dim."""
    sizes = [_size_of_node(axes, node) for node in dim]
    return reduce(multiply, sizes) if sizes else constant(1)


def _size_of_node(axes: Axes, node: Node) -> Polynomial:
    parts = axes.parts(node)
    if parts is None:
        return {(axes.root(node).serial,): 1} if node.size > 1 else constant(node.size)
    if parts.join is Join.PRODUCT:
        return size_of(axes, parts.nodes)
    if parts.join is Join.STACK:  # all are of one size
        return _size_of_node(axes, parts.nodes[0])
    result = constant(0)
    for piece in parts.nodes:
        result = add(result, _size_of_node(axes, piece))
    return result


def multiply(p: Polynomial, q: Polynomial) -> Polynomial:
    """p * q."""
    result: dict[tuple[int, ...], int] = {}
    for a, x in p.items():
        for b, y in q.items():
            monomial = tuple(sorted(a + b)) if a and b else a or b
            result[monomial] = result.get(monomial, 0) + x * y
    return result


def add(p: Polynomial, q: Polynomial, sign: int = 1) -> Polynomial:
    """p + sign * q."""
    result = dict(p)
    for monomial, coefficient in q.items():
        result[monomial] = result.get(monomial, 0) + sign * coefficient
    return {monomial: c for monomial, c in result.items() if c}


def divide(p: Polynomial, q: Polynomial) -> Polynomial | None:
    """p / q where q divides p without a remainder, otherwise None."""
    if not q:
        return None
    rest, result = p, constant(0)
    while rest:
        (leading, coefficient), (divisor, by) = (max(x.items(), key=_order) for x in (rest, q))
        factors = Counter(leading)
        factors.subtract(divisor)
        if coefficient % by or any(n < 0 for n in factors.values()):
            return None
        term = {tuple(sorted(factors.elements())): coefficient // by}
        result, rest = add(result, term), add(rest, multiply(term, q), -1)
    return result


def substitute(p: Polynomial, values: Mapping[int, Polynomial]) -> Polynomial:
    """p with some axes, by serial number, replaced by what they equal."""
    result: Polynomial = {}
    for monomial, coefficient in p.items():
        term = constant(coefficient)
        for serial in monomial:
            term = multiply(term, values.get(serial, {(serial,): 1}))
        result = add(result, term)
    return result


def _order(term: tuple[tuple[int, ...], int]) -> tuple[int, tuple[int, ...]]:
    """An order of monomials that multiplying both by a third one keeps."""
    return len(term[0]), term[0]


def axes_in(p: Polynomial) -> set[int]:
    """Serial numbers of the axes that occur."""
    return {serial for monomial in p for serial in monomial}


def evaluate(p: Polynomial, axes: Axes) -> int:
    """The value at the present sizes."""
    total = 0
    for monomial, coefficient in p.items():
        for serial in monomial:
            coefficient *= axes.nodes[serial].size
        total += coefficient
    return total


def as_expression(p: Polynomial) -> Expression | None:
    """As an axis expression of that size; None if a coefficient is negative."""
    terms: list[Expression] = []
    for monomial, coefficient in p.items():
        factors: list[Expression] = [Leaf(str(serial)) for serial in monomial]
        if coefficient < 0:
            return None
        if coefficient != 1 or not factors:
            factors.insert(0, Fixed(coefficient))
        terms.append(factors[0] if len(factors) == 1 else Product(tuple(factors)))
    return terms[0] if len(terms) == 1 else Concat(tuple(terms))
