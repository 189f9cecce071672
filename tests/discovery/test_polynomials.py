"""Tests of sizes as polynomials."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from growkit.axes.expressions import size
from growkit.axes.reading import leaf_nodes
from growkit.axes.union_find import Axes
from growkit.discovery import polynomials
from growkit.discovery.polynomials import Polynomial

AXES = Axes()
for _size in (2, 3, 5):
    AXES.node(_size, named=True)
MONOMIALS = st.lists(st.integers(0, 2), max_size=2).map(lambda axes: tuple(sorted(axes)))
POLYNOMIALS = st.dictionaries(MONOMIALS, st.integers(1, 4), max_size=3)
LAW = settings(deadline=None, max_examples=50)


@given(POLYNOMIALS, POLYNOMIALS)
@LAW
def test_arithmetic_agrees_with_numbers(p: Polynomial, q: Polynomial) -> None:
    a, b = polynomials.evaluate(p, AXES), polynomials.evaluate(q, AXES)
    assert polynomials.evaluate(polynomials.multiply(p, q), AXES) == a * b
    assert polynomials.evaluate(polynomials.add(p, q), AXES) == a + b
    assert polynomials.evaluate(polynomials.add(p, q, -1), AXES) == a - b


@given(POLYNOMIALS, MONOMIALS, st.integers(1, 4))
@LAW
def test_division_undoes_multiplication(p: Polynomial, monomial: tuple[int, ...], factor: int) -> None:
    q = {monomial: factor}
    assert polynomials.divide(polynomials.multiply(p, q), q) == p


def test_division_that_leaves_a_rest_gives_none() -> None:
    assert polynomials.divide({(0,): 3}, {(): 2}) is None
    assert polynomials.divide({(0,): 1}, {(1,): 1}) is None
    assert polynomials.divide({(0, 1): 1}, {(0,): 1, (1,): 1}) is None


@given(POLYNOMIALS.filter(bool))
@LAW
def test_expressions_have_the_same_size(p: Polynomial) -> None:
    expression = polynomials.as_expression(p)
    assert expression is not None
    assert size(expression, {"0": 2, "1": 3, "2": 5}) == polynomials.evaluate(p, AXES)


def test_negative_terms_are_no_expression() -> None:
    assert polynomials.as_expression({(0,): 1, (): -1}) is None


def test_the_size_of_a_dim_follows_its_structure() -> None:
    axes = Axes()
    weight = axes.node(20, named=True)
    (heads,), (inner,) = axes.split(weight, 2)
    axes.unify(axes.cut([inner], 0, 3), axes.cut([inner], 3, 6))
    _, key, _, value = leaf_nodes(axes, weight)
    h, k, v = (axes.root(node).serial for node in (heads, key, value))
    assert polynomials.size_of(axes, [weight]) == {(h, k): 2, (h, v): 1}
    assert polynomials.axes_in({(h, k): 2, (): 1}) == {h, k}
    assert polynomials.size_of(axes, []) == {(): 1}


@given(POLYNOMIALS, POLYNOMIALS)
@LAW
def test_an_axis_is_replaced_by_what_it_equals(p: Polynomial, q: Polynomial) -> None:
    replaced = polynomials.substitute(p, {2: q})
    sizes = [AXES.nodes[0].size, AXES.nodes[1].size, polynomials.evaluate(q, AXES)]
    expected = 0
    for monomial, coefficient in p.items():
        for serial in monomial:
            coefficient *= sizes[serial]
        expected += coefficient
    assert polynomials.evaluate(replaced, AXES) == expected


def test_division_by_a_sum() -> None:
    """(a + 2) (a b + 3 c) / (a b + 3 c) = a + 2, and what is not a product has no quotient."""
    p, q = {(1,): 1, (): 2}, {(1, 2): 1, (3,): 3}
    assert polynomials.divide(polynomials.multiply(p, q), q) == p
    assert polynomials.divide(polynomials.multiply(p, q), p) == q
    assert polynomials.divide(polynomials.add(polynomials.multiply(p, q), {(2,): 1}), q) is None
    assert polynomials.divide({(1,): 1}, {}) is None
