"""Maps of whole dimensions: Kronecker products and direct sums of the maps of their axes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from growkit.axes.layouts import Layout
from growkit.maps.axis_map import AxisMap
from growkit.maps.lifting import Change, DimMap, GrownAxis, count_new, lift
from growkit.maps.methods.copy import METHOD as COPY
from growkit.maps.methods.fresh import METHOD as FRESH
from growkit.maps.methods.method import Fill, Method


def value_matrix(dim: DimMap) -> torch.Tensor:
    """'new old'"""
    dense = torch.zeros(len(dim.source), dim.old_size, dtype=torch.float64)
    for j, (old, factor) in enumerate(zip(dim.source, dim.value, strict=True)):
        if old >= 0:
            dense[j, old] = factor
    return dense


def axis_matrix(m: AxisMap, factors: tuple[float, ...]) -> torch.Tensor:
    dense = torch.zeros(m.new_size, m.old_size, dtype=torch.float64)
    for j, (old, factor) in enumerate(zip(m.source, factors, strict=True)):
        if old >= 0:
            dense[j, old] = factor
    return dense


def test_new_entries_are_counted_whatever_the_shape_is_of() -> None:
    """2 x 3 in 4 x 3 x 5, with a dim that stays: all but 2 * 3 * 3 are new."""
    rows, columns = (
        lift(
            dim,
            {"a": 2, "b": 3},
            {"a": GrownAxis(FRESH.make(2, 4, ""), FRESH), "b": GrownAxis(FRESH.make(3, 5, ""), FRESH)},
        )
        for dim in Layout.parse("a b").dims
    )
    assert rows is not None
    assert rows.new == 2
    for shape in ((2, 3, 3), (4, 3, 5)):
        assert count_new(shape, [rows, None, columns]) == 4 * 3 * 5 - 2 * 3 * 3
    assert count_new((2, 3), [None, None]) == count_new((), []) == 0


sizes = st.tuples(st.integers(1, 4), st.integers(0, 4))


@given(sizes, sizes, st.sampled_from([COPY, FRESH]), st.sampled_from([COPY, FRESH]))
def test_products_are_kronecker_products(
    a: tuple[int, int], b: tuple[int, int], method_a: Method, method_b: Method
) -> None:
    (dim,) = Layout.parse("(a b):consumes").dims
    grown = {
        "a": GrownAxis(method_a.make(a[0], sum(a)), method_a),
        "b": GrownAxis(method_b.make(b[0], sum(b)), method_b),
    }
    lifted = lift(dim, {"a": a[0], "b": b[0]}, grown)
    assert lifted is not None
    expected = torch.kron(*(axis_matrix(g.map, g.map.contract) for g in grown.values()))
    assert torch.equal(value_matrix(lifted), expected)


@given(sizes, sizes)
def test_concatenations_are_direct_sums(a: tuple[int, int], b: tuple[int, int]) -> None:
    (dim,) = Layout.parse("[a|b|a]:consumes").dims
    grown = {"a": GrownAxis(COPY.make(a[0], sum(a)), COPY), "b": GrownAxis(FRESH.make(b[0], sum(b)), FRESH)}
    lifted = lift(dim, {"a": a[0], "b": b[0]}, grown)
    assert lifted is not None
    block_a, block_b = (axis_matrix(g.map, g.map.contract) for g in grown.values())
    assert torch.equal(value_matrix(lifted), torch.block_diag(block_a, block_b, block_a))


def test_gate_halves_grow_each_in_its_place() -> None:
    """[f|f] with f: 2 -> 3 by a copy of unit 0: not one block of 4 -> 6."""
    (dim,) = Layout.parse("[f|f]:produces").dims
    lifted = lift(dim, {"f": 2}, {"f": GrownAxis(COPY.make(2, 3), COPY)})
    assert lifted is not None
    assert lifted.source == (0, 1, 0, 2, 3, 2)
    assert lifted.value == (1.0,) * 6
    assert lifted.gradient == (0.5, 1.0, 0.5) * 2


def test_new_heads_are_new_in_every_channel() -> None:
    (dim,) = Layout.parse("(heads dim):produces").dims
    lifted = lift(dim, {"heads": 1, "dim": 2}, {"heads": GrownAxis(FRESH.make(1, 2), FRESH)})
    assert lifted is not None
    assert lifted.source == (0, 1, -1, -1)
    assert lifted.positions(Fill.RANDOM) == (2, 3)


def test_zero_wins_where_two_factors_are_new() -> None:
    (dim,) = Layout.parse("(a:produces b:consumes)").dims
    grown = {"a": GrownAxis(FRESH.make(1, 2), FRESH), "b": GrownAxis(FRESH.make(1, 2), FRESH)}
    lifted = lift(dim, {"a": 1, "b": 1}, grown)
    assert lifted is not None
    assert lifted.fill == (None, Fill.ZERO, Fill.RANDOM, Fill.ZERO)


def test_statistics_have_no_gradient() -> None:
    (dim,) = Layout.parse("c:variance").dims
    lifted = lift(dim, {"c": 1}, {"c": GrownAxis(COPY.make(1, 2), COPY)})
    assert lifted is not None
    assert lifted.gradient is None


def test_unchanged_dims_have_no_map() -> None:
    (dim,) = Layout.parse("(a 3)").dims
    assert lift(dim, {"a": 2}, {}) is None


def test_an_occurrence_takes_a_factor_and_its_gradient_the_inverse() -> None:
    """[a|a] where only the second part is changed, by 4; new units are silent there."""
    (dim,) = Layout.parse("[a:produces|a:produces]").dims
    grown = {"a": GrownAxis(FRESH.make(1, 2, ""), FRESH)}
    lifted = lift(dim, {"a": 1}, grown, {1: Change(4.0, silent=True)})
    assert lifted is not None
    assert lifted.source == (0, -1, 1, -1)
    assert (lifted.value[0], lifted.value[2]) == (1.0, 4.0)
    assert lifted.gradient is not None
    assert (lifted.gradient[0], lifted.gradient[2]) == (1.0, 0.25)
    assert lifted.fill == (None, Fill.RANDOM, None, Fill.ZERO)
