"""Laws of axis maps, and the factors that follow from roles, against matrices."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from growkit.axes.expressions import Role
from growkit.errors import MapError
from growkit.maps.axis_map import NEW, AxisMap


@st.composite
def axis_maps(draw: st.DrawFn, old_size: int | None = None) -> AxisMap:
    """Copies with unequal counts and scales, in any order, some units new."""
    old = old_size or draw(st.integers(1, 6))
    sources = draw(st.permutations([*range(old), *draw(st.lists(st.integers(NEW, old - 1), max_size=5))]))
    scales = {j: draw(st.floats(0.25, 4)) for j, unit in enumerate(sources) if unit != NEW}
    weights = {j: draw(st.floats(0.25, 4)) for j in scales}
    totals = [sum(weights[j] for j in scales if sources[j] == unit) for unit in range(old)]
    expand = tuple(scales.get(j, 0.0) for j in range(len(sources)))
    contract = tuple(weights[j] / totals[u] / scales[j] if u != NEW else 0.0 for j, u in enumerate(sources))
    return AxisMap(old, tuple(sources), expand, contract)


def matrices(m: AxisMap) -> tuple[torch.Tensor, torch.Tensor]:
    """M 'new old' and N 'old new' as the docstring of the module defines them."""
    expand = torch.zeros(m.new_size, m.old_size, dtype=torch.float64)
    contract = torch.zeros(m.old_size, m.new_size, dtype=torch.float64)
    for j, unit in enumerate(m.source):
        if unit != NEW:
            expand[j, unit], contract[unit, j] = m.expand[j], m.contract[j]
    return expand, contract


@given(axis_maps())
def test_contract_after_expand_is_the_identity(m: AxisMap) -> None:
    expand, contract = matrices(m)
    torch.testing.assert_close(contract @ expand, torch.eye(m.old_size, dtype=torch.float64), rtol=0, atol=1e-12)


@given(axis_maps().flatmap(lambda m: st.tuples(st.just(m), axis_maps(m.new_size))))
def test_composition_is_the_product_of_the_matrices(pair: tuple[AxisMap, AxisMap]) -> None:
    first, second = pair
    both = first.then(second)
    for ours, theirs in zip(
        matrices(both),
        (matrices(second)[0] @ matrices(first)[0], matrices(first)[1] @ matrices(second)[1]),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)


@given(axis_maps(), axis_maps())
def test_factors_are_the_entries_of_the_matrices(rows: AxisMap, columns: AxisMap) -> None:
    """W' = M W N and G' = N^T G M^T, entry by entry, for a weight that produces rows and consumes columns."""
    weight = torch.randn(rows.old_size, columns.old_size, dtype=torch.float64)
    (m_out, n_out), (m_in, n_in) = matrices(rows), matrices(columns)
    for dense, produces, consumes in (
        (m_out @ weight @ n_in, rows.value_factors(Role.PRODUCES), columns.value_factors(Role.CONSUMES)),
        (n_out.T @ weight @ m_in.T, rows.gradient_factors(Role.PRODUCES), columns.gradient_factors(Role.CONSUMES)),
    ):
        for j, i in enumerate(rows.source):
            for column, k in enumerate(columns.source):
                entry = 0.0 if NEW in (i, k) else produces[j] * consumes[column] * weight[i, k].item()
                assert dense[j, column].item() == pytest.approx(entry, rel=1e-12)


def test_gain_and_statistics() -> None:
    """One unit as two copies of scales 2 and 3, shares 1/8 and 1/4."""
    m = AxisMap(1, (0, 0), (2.0, 3.0), (0.125, 0.25))
    assert m.value_factors(Role.GAIN) == (1.0, 1.0)
    assert m.gradient_factors(Role.GAIN) == (0.25, 0.75)
    assert m.value_factors(Role.MEAN) == m.value_factors(Role.BIAS) == (2.0, 3.0)
    assert m.gradient_factors(Role.BIAS) == (0.125, 0.25)
    assert m.value_factors(Role.VARIANCE) == (4.0, 9.0)
    with pytest.raises(MapError, match="gradient factors for the role 'variance'"):
        m.gradient_factors(Role.VARIANCE)


def test_uniform() -> None:
    assert AxisMap.copies(2, (0, 1, 0, 1)).uniform
    assert AxisMap.copies(2, (0, 1, 0, 1)).counts == (2, 2)
    assert not AxisMap.copies(2, (0, 1, 0)).uniform
    assert not AxisMap.copies(2, (0, 1, NEW)).uniform
    assert AxisMap.identity(3).then(AxisMap.identity(3)) == AxisMap.identity(3)


@pytest.mark.parametrize(
    ("source", "expand", "contract", "message"),
    [
        ((0,), (1.0, 1.0), (1.0,), "lengths 1, 2, 1"),
        ((0, 2), (1.0, 1.0), (1.0, 1.0), "source 2 on an axis of 2 units"),
        ((0, 0), (1.0, 1.0), (0.5, 0.5), "copies of unit 1 .* summing to 0"),
        ((0, 1, NEW), (1.0, 1.0, 0.5), (1.0, 1.0, 0.0), "a new unit with the scales 0.5 and 0"),
        ((0, 1, NEW), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0), "a new unit with the scales 0.0 and 1"),
        ((0, 1, 1), (1.0,) * 3, (1.0,) * 3, "copies of unit 1 .* summing to 2"),
    ],
)
def test_broken_maps_are_refused(
    source: tuple[int, ...], expand: tuple[float, ...], contract: tuple[float, ...], message: str
) -> None:
    with pytest.raises(MapError, match=message):
        AxisMap(2, source, expand, contract)


def test_maps_that_do_not_meet() -> None:
    with pytest.raises(MapError, match="a map to 2 units followed by one from 3"):
        AxisMap.identity(2).then(AxisMap.identity(3))


def test_sums_over_a_map() -> None:
    """Units 0, 0, 1, 1 with scales 1: squares and units sum to twice as much; unequal copies to no one factor."""
    twice = AxisMap.copies(2, (0, 0, 1, 1))
    assert (twice.energy, twice.total, twice.self_dual) == (2.0, 2.0, True)
    uneven = AxisMap.copies(2, (0, 0, 1))
    assert (uneven.energy, uneven.total, uneven.self_dual) == (None, None, False)
    padded = AxisMap.copies(2, (0, 1, NEW), padded=True)
    assert (padded.energy, padded.total, padded.self_dual) == (1.0, 1.0, True)
    averaged = AxisMap.copies(2, (0, 1, NEW), averaged=True)
    assert (averaged.energy, averaged.total) == (1.0, 1.5)
    shares = AxisMap(1, (0, 0), (1.0, 1.0), (0.25, 0.75))
    assert (shares.energy, shares.self_dual) == (2.0, False)


def test_a_readout_gain_divides_what_copies_would_add_twice() -> None:
    """A tied table writes m and reads m again, so that what it reads is n / m; its gradient is then m * m."""
    isometric = AxisMap(1, (0, 0), (0.6, 0.8), (0.6, 0.8))
    copies = AxisMap.copies(1, (0, 0, NEW))
    assert isometric.value_factors(Role.READOUT) == (1.0, 1.0)
    assert copies.value_factors(Role.READOUT) == (0.5, 0.5, 0.0)
    assert copies.gradient_factors(Role.READOUT) == (1.0, 1.0, 0.0)
    assert isometric.gradient_factors(Role.READOUT) == pytest.approx((0.36, 0.64))
