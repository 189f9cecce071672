"""Tests of comparisons of sizes with numbers, against trying all sizes."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from torch import Tensor, nn

from growkit.discovery.comparisons import bounded, stays
from growkit.discovery.discover import discover
from growkit.errors import SizeError
from growkit.growth.api import grow
from growkit.growth.planning import make_plan
from tests.discovery.models import Small, X, passages

SIGNS = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("slope", [-3, -1, 1, 2])
@pytest.mark.parametrize("rest", range(-9, 10))
@pytest.mark.parametrize("size", [1, 3, 4])
def test_what_is_said_holds_at_all_larger_sizes(sign: str, slope: int, rest: int, size: int) -> None:
    difference = {monomial: c for monomial, c in {(7,): slope, (): rest}.items() if c}
    outcomes = {n: SIGNS[sign](slope * n + rest, 0) for n in range(size, 40)}
    changed = {n for n, outcome in outcomes.items() if outcome is not outcomes[size]}
    now = slope * size + rest
    if stays(sign, difference, now):
        assert not changed
        return
    assert changed
    found = bounded(sign, difference, now)
    if found is None:
        assert now == 0
        return
    serial, kind = found
    word, _, number = kind.partition(":")
    assert serial == 7
    assert changed == ({int(number)} if word == "other_than" else set(range(int(number) + 1, 40)))


def test_numbers_and_several_axes() -> None:
    assert stays("le", {(): -3}, -3)
    assert bounded("le", {(1,): 1, (2,): 1, (): -9}, -2) is None
    assert bounded("le", {(1, 2): 1, (): -9}, -3) is None
    assert stays("gt", {(1,): 1, (2,): 1, (): -3}, 2)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda m, y: y if m.n <= 10 else -y, "at_most:10"),
        (lambda m, y: -y if m.n > 10 else y, "at_most:10"),
        (lambda m, y: -y if m.n >= 10 else y, "at_most:9"),
        (lambda m, y: y if m.n < 10 else -y, "at_most:9"),
        (lambda m, y: y if y.shape[-1] * 3 <= 31 else -y, "at_most:10"),
        (lambda m, y: -y if m.n == 8 else y, "other_than:8"),
        (lambda m, y: y if 2 * m.n != 16 else -y, "other_than:8"),
    ],
)
def test_a_size_compared_with_a_number_may_grow_up_to_it(use: Any, kind: str) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(use(m, m.a(x).view(*x.shape[:-1], m.n)))

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 3), n=4)
    table = discover(model, X)
    assert passages(table, "a.weight[0]") >= {kind}
    assert not table.by_name["a.weight[0]"].locked
    word, _, bound = kind.partition(":")
    refused = int(bound) + (word == "at_most")
    with pytest.raises(SizeError, match="takes another branch"):
        make_plan(table, widen={"a.weight[0]": refused})
    assert grow(model, widen={"a.weight[0]": refused - 1}, example_inputs=X).verification.passed


def test_what_no_size_can_equal_needs_no_care() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x).view(*x.shape[:-1], m.n)
        return m.b(-y if 2 * m.n == 17 else y)

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 3), n=4), X)
    assert not {kind for kind in passages(table, "a.weight[0]") if ":" in kind or kind == "size_as_number"}
