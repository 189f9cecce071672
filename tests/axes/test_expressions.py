"""Tests of axis expressions."""

from __future__ import annotations

import pytest

from growkit.axes.expressions import (
    Concat,
    Expression,
    Fixed,
    Leaf,
    Product,
    Role,
    leaves,
    rename,
    size,
    without_roles,
)

HEADS = Product((Leaf("h", Role.PRODUCES), Concat((Leaf("k"), Leaf("k"), Leaf("v")))))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (Leaf("h"), 2),
        (Fixed(7), 7),
        (Product((Leaf("h"), Fixed(5))), 10),
        (Concat((Leaf("k"), Fixed(1))), 4),
        (HEADS, 2 * (3 + 3 + 4)),
    ],
)
def test_size_counts_entries(expression: Expression, expected: int) -> None:
    assert size(expression, {"h": 2, "k": 3, "v": 4}) == expected


def test_leaves_come_from_left_to_right_and_repeat() -> None:
    assert [leaf.axis for leaf in leaves(HEADS)] == ["h", "k", "k", "v"]


def test_fixed_numbers_have_no_leaves() -> None:
    assert list(leaves(Product((Fixed(2), Fixed(3))))) == []


def test_rename_keeps_roles_and_unknown_names() -> None:
    renamed = rename(HEADS, {"h": "heads", "v": "value"})
    assert renamed == Product((Leaf("heads", Role.PRODUCES), Concat((Leaf("k"), Leaf("k"), Leaf("value")))))
    assert rename(Fixed(3), {"h": "heads"}) == Fixed(3)


def test_without_roles() -> None:
    """`(heads [a|b] 2)` with and without."""
    a, b = Leaf("a", Role.CONSUMES), Leaf("b", Role.CONSUMES)
    with_roles = Product((Leaf("heads", Role.PRODUCES), Concat((a, b)), Fixed(2)))
    assert without_roles(with_roles) == Product((Leaf("heads"), Concat((Leaf("a"), Leaf("b"))), Fixed(2)))
