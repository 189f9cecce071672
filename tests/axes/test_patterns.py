"""Tests of layout texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growkit.axes.expressions import Concat, Expression, Fixed, Leaf, Product, Role
from growkit.axes.patterns import parse, show
from growkit.errors import PatternError

NAMES = st.sampled_from(["a", "head_dim", "fc1.weight[0]", "layers.0.q.weight[0].1", "0.weight[1]", "x-y"])
LEAVES = st.builds(Leaf, NAMES, st.sampled_from([None, *Role]))


def _compose(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(children, min_size=2, max_size=3).map(tuple)
    return st.builds(Product, several) | st.builds(Concat, several)


EXPRESSIONS = st.recursive(LEAVES | st.builds(Fixed, st.integers(1, 30)), _compose, max_leaves=6)


@given(st.lists(EXPRESSIONS, max_size=4).map(tuple))
@settings(deadline=None, max_examples=60)
def test_parse_inverts_show(dims: tuple[Expression, ...]) -> None:
    assert parse(show(dims)) == dims


def test_a_role_holds_for_all_before_it_that_has_none() -> None:
    assert parse("(h d:gain):produces 3") == (
        Product((Leaf("h", Role.PRODUCES), Leaf("d", Role.GAIN))),
        Fixed(3),
    )


def test_names_may_begin_with_a_number() -> None:
    assert parse("0.weight[0]:produces") == (Leaf("0.weight[0]", Role.PRODUCES),)
    assert parse("12 [value|gate]") == (Fixed(12), Concat((Leaf("value"), Leaf("gate"))))


def test_one_factor_is_no_product() -> None:
    assert parse("(a)") == (Leaf("a"),)


def test_an_empty_text_has_no_dims() -> None:
    assert parse("") == ()


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("a (b", 4, "')'"),
        ("a:makes", 2, "a role"),
        ("[a b]", 3, "'|' or ']'"),
        ("a ()", 2, "at least one axis"),
        ("a ?", 2, "a name, a number"),
    ],
)
def test_an_unreadable_text_says_where_and_what_was_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse(text)
    assert f"at position {position}" in caught.value.given
    assert expected in caught.value.allowed
    assert "roles are produces, consumes" in caught.value.next_step
