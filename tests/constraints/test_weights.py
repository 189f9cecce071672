"""Tests of the constraints of parameters that are computed from others."""

from __future__ import annotations

import pytest

from growkit.constraints.table import constraint_of
from growkit.maps.axis_map import AxisMap
from growkit.maps.methods.table import METHODS

HALF = 0.5**0.5
ISOMETRIC = AxisMap(2, (0, 1, 0, 1), (HALF,) * 4, (HALF,) * 4)
"""Copies whose squared scales sum to 1, on both sides."""


def _admitted(kind: str, size: int = 4) -> set[str]:
    maps = {name: method.make(2, size, "key") for name, method in METHODS.items()}
    return {name for name in ("copy", "net2net", "fresh", "zero_pad") if constraint_of(kind)(maps[name]) is None}


@pytest.mark.parametrize(
    ("kind", "admitted"),
    [
        ("gain:exp", {"copy", "net2net", "fresh", "zero_pad"}),
        ("gain:log", {"copy", "net2net"}),
        ("consumed:tanh", {"fresh"}),
        ("consumed:relu", set()),
        ("consumed:sigmoid", set()),
        ("two_roles", {"copy", "net2net", "fresh"}),
        ("weight_norm 0 1 0", {"fresh"}),  # zero columns
        ("weight_norm 1 0 0", {"zero_pad"}),  # zero rows
        ("weight_norm 0 0 1", set()),
        ("weight_norm 1 1 0", {"copy"}),  # k copies of rows, each with k columns of 1 / k
        ("weight_norm 0 1 1", {"copy"}),
        ("weight_norm 1 0 1", set()),
        ("scaled_weight_norm 0 1 0", {"copy", "fresh"}),
        ("scaled_weight_norm 1 0 0", {"copy", "zero_pad"}),
        ("scaled_weight_norm 0 0 1", {"copy"}),
        ("scaled_weight_norm 1 1 0", {"copy"}),
        ("scaled_weight_norm 1 0 1", {"copy"}),
    ],
)
def test_methods(kind: str, admitted: set[str]) -> None:
    assert _admitted(kind) == admitted


def test_unequal_counts_change_a_norm_over_rows_and_columns() -> None:
    assert "copy" not in _admitted("weight_norm 1 1 0", 5)


def test_what_is_behind_a_norm_takes_one_factor_only() -> None:
    for kind in ("0 0 1", "1 0 0", "1 1 1"):
        assert "copy" not in _admitted(f"scaled_weight_norm {kind}", 5)
        assert constraint_of(f"scaled_weight_norm {kind}")(ISOMETRIC) is None


def test_copies_of_a_gain_share_its_gradient_evenly() -> None:
    """Each has the gradient times expand * contract, and the part along the weight is the same for all."""
    uneven = AxisMap(1, (0, 0), (0.6, 0.8), (0.6, 0.8))
    assert constraint_of("scaled_weight_norm 0 0 1")(uneven) is not None
    assert constraint_of("scaled_weight_norm 1 0 0")(uneven) is None


def test_scales_whose_squares_sum_to_one_keep_a_norm() -> None:
    for kind, admitted in (("0 1 0", True), ("1 0 0", True), ("1 1 0", True), ("0 0 1", False), ("1 1 1", False)):
        assert (constraint_of(f"weight_norm {kind}")(ISOMETRIC) is None) is admitted


def test_a_refusal_says_what_would_do() -> None:
    refusal = constraint_of("weight_norm 1 1 0")(METHODS["fresh"].make(2, 4, ""))
    assert refusal is not None
    assert refusal.admitted == "equally many copies of 2 units"
