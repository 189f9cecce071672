"""Tests of the ints that are sizes of axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.axes.patterns import show
from growkit.axes.table import AxisTable
from growkit.discovery.discover import discover
from growkit.errors import TieError
from growkit.growth.api import grow
from tests.discovery.models import Small, X, reasons, size_matters


def numbers(table: AxisTable, read: bool = True) -> dict[str, list[str]]:
    """The sizes of each number, as texts."""
    return {
        n.path + ("" if n.index is None else f"[{n.index}]"): [show([size]) for size in n.sizes]
        for n in table.numbers
        if n.read is read
    }


def heads_by(shape: Callable[[Any, Tensor], tuple[int, ...]], **ints: int) -> AxisTable:
    """A linear layer whose 12 outputs are viewed in a shape that a function gives."""

    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x)
        return F.relu(y.view(*y.shape[:2], *shape(m, y))).flatten(2)

    return discover(Small(run, a=nn.Linear(5, 12), **ints), X)


H, D = "a.weight[0].0", "a.weight[0].1"


@pytest.mark.parametrize(
    ("shape", "ints", "expected"),
    [
        (lambda m, y: (m.h, m.d), {"h": 3, "d": 4}, {"h": [H], "d": [D]}),
        (lambda m, y: (m.h, -1), {"h": 3}, {"h": [H]}),
        (lambda m, y: (m.h, y.shape[-1] // m.h), {"h": 3}, {"h": [H]}),
        (lambda m, y: (m.h, m.w // m.h), {"h": 3, "w": 12}, {"h": [H], "w": [f"({H} {D})"]}),
        (lambda m, y: (m.h, 2 * m.half), {"h": 3, "half": 2}, {"h": [H]}),
        (lambda m, y: (m.h, m.d + 1 - 1), {"h": 3, "d": 4}, {"h": [H], "d": [D]}),
        (lambda m, y: (m.h, m.d * m.h // m.h), {"h": 3, "d": 4}, {"h": [H], "d": [D]}),
    ],
)
def test_arithmetic_is_followed(shape: Any, ints: dict[str, int], expected: dict[str, list[str]]) -> None:
    assert numbers(heads_by(shape, **ints)) == expected


@pytest.mark.parametrize(
    ("shape", "ints"),
    [
        (lambda m, y: (3, 4), {}),
        (lambda m, y: (int(m.h), -1), {"h": 3}),
        (lambda m, y: (m.h, 2 * m.half), {"h": 3, "half": 2}),
    ],
)
def test_a_size_that_cannot_follow_is_locked_with_its_place(shape: Any, ints: dict[str, int]) -> None:
    table = heads_by(shape, **ints)
    locks = [lock for axis in table if axis.name in (H, D) for lock in axis.locks]
    assert locks
    assert {lock.where.partition(", ")[0] for lock in locks} <= {"Small (view)", "half"}


def test_two_numbers_that_only_fix_a_product_lock() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return F.relu(m.a(x).reshape(-1, m.h * m.d))

    table = discover(Small(run, a=nn.Linear(5, 12), h=3, d=4), X)
    assert reasons(table, "a.weight[0]") == [
        "its size is computed from numbers of which it is not known how they would grow"
    ]


def test_one_number_for_two_axes_ties_them() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(F.relu(m.a(x).view(*x.shape[:-1], m.n))).view(*x.shape[:-1], m.n)

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 4), n=4), X)
    assert numbers(table) == {"n": ["a.weight[0]", "b.weight[0]"]}


def test_two_numbers_compare_as_the_sizes_that_they_share() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        a, b, c = (F.relu(part(x)) for part in (m.a, m.b, m.c))
        a, b = a.view(*x.shape[:-1], m.n), b.view(*x.shape[:-1], m.n)
        b, c = b.view(*x.shape[:-1], m.most), c.view(*x.shape[:-1], m.most)
        return m.d(a) + m.e(b) + m.f(c) if m.n < m.most else m.d(a) - m.e(b) - m.f(c)

    parts = {name: nn.Linear(5, 4) for name in "abc"} | {name: nn.Linear(4, 2) for name in "def"}
    table = discover(Small(run, **parts, n=4, most=4), X)
    assert not size_matters(table, "a.weight[0]")


@pytest.mark.parametrize("asked", [operator.lt, operator.gt, operator.le, operator.ge])
def test_what_is_compared_with_a_size_that_it_is_follows_where_it_would_turn_out_otherwise(asked: Any) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x).view(*x.shape[:-1], m.n)
        return m.b(y) if asked(m.other, m.n) else -m.b(y)

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 3), n=4, other=4), X)
    assert not table.by_name["a.weight[0]"].locked
    stays = asked(4, 4) is asked(4, 5)
    assert numbers(table) == {"n": ["a.weight[0]"]} | ({} if stays else {"other": ["a.weight[0]"]})


@pytest.mark.parametrize(("pair", "matters"), [(2, False), (4, True)])
def test_sizes_that_never_grow_compare_as_numbers(pair: int, matters: bool) -> None:
    """Pairs are an even number of units, however many there are; fours of pairs may become five pairs."""

    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x)
        pairs = y.view(*y.shape[:-1], y.shape[-1] // 2, 2)
        return m.b(F.relu(pairs).flatten(-2)) if y.shape[-1] % pair == 0 else -m.b(y)

    table = discover(Small(run, a=nn.Linear(5, 8), b=nn.Linear(8, 3)), X)
    assert table.by_name["a.weight[0].1"].locked
    assert size_matters(table, "a.weight[0].0") is matters
    assert table.by_name["a.weight[0].0"].locked is matters


def test_numbers_that_disagree_give_equal_sizes() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.enter(x).view(*x.shape[:2], m.width)
        y = m.a(x).view(*x.shape[:2], m.h, m.width // m.h)
        return m.leave(F.relu(y).flatten(2))

    model = Small(run, enter=nn.Linear(5, 12), a=nn.Linear(12, 12), leave=nn.Linear(12, 2), width=12, h=3)
    (equality,) = discover(model, X).equalities
    assert [show([size]) for size in equality.sizes] == ["enter.weight[0]", "(a.weight[0].0 a.weight[0].1)"]


def test_chunks_are_equally_large() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        p, q = m.a(x).chunk(2, -1)
        return m.b(p) + m.c(q)

    table = discover(Small(run, a=nn.Linear(5, 8), b=nn.Linear(4, 3), c=nn.Linear(4, 3)), X)
    (equality,) = table.equalities
    assert [show([size]) for size in equality.sizes] == ["a.weight[0].0", "a.weight[0].1"]
    assert equality.where == "Small (chunk)"


@pytest.mark.parametrize(
    "use",
    [
        lambda m, y: y / math.sqrt(y.shape[-1]),
        lambda m, y: y * y.size(-1) ** -0.5,
        lambda m, y: y / m.n,
        lambda m, y: y / math.sqrt(m.n),
        lambda m, y: y * m.n,
        lambda m, y: y.sum(-1, keepdim=True) / y.shape[-1],
        lambda m, y: y / y.numel(),
        lambda m, y: y / y.nelement(),
        lambda m, y: y / y.stride(1),
        lambda m, y: y / y.stride()[0],
        lambda m, y: y / math.prod(y.shape),
        lambda m, y: y / len(y[0, 0]),
        lambda m, y: y / (m.n % 3),
        lambda m, y: y / divmod(m.n, 3)[0],
        lambda m, y: y / (m.n // 3.0),
        lambda m, y: y / int(m.n),
        lambda m, y: y / (1 << m.n),
        lambda m, y: y / m.n.bit_length(),
        lambda m, y: y * torch.full((1,), m.n),
        lambda m, y: y * torch.tensor(m.n),
        lambda m, y: y * torch.ones_like(y).sum(-1, keepdim=True),
        lambda m, y: -y if m.n % 2 else y,
        lambda m, y: y / min(m.n, 10),
    ],
)
def test_a_size_used_as_a_number_is_a_passage(use: Any) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return use(m, m.a(x).view(*x.shape[:-1], m.n))

    table = discover(Small(run, a=nn.Linear(5, 4), n=4), X)
    assert size_matters(table, "a.weight[0]")


@pytest.mark.parametrize(
    "use",
    [
        lambda m, y: y if m.n > 3 else -y,
        lambda m, y: y if m.n >= 4 else -y,
        lambda m, y: y if m.n else -y,
        lambda m, y: y if m.n == y.shape[-1] else -y,
        lambda m, y: y if y.shape == (*y.shape[:2], m.n) else -y,
        lambda m, y: y if m.n % m.n == 0 else -y,
        lambda m, y: y if y.numel() % y.shape[-1] == 0 else -y,
        lambda m, y: y / max(y.shape[0], 3),
        lambda m, y: y * torch.ones_like(y).mean(-1, keepdim=True),
    ],
)
def test_what_stays_so_at_all_larger_sizes_is_none(use: Any) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(use(m, m.a(x).view(*x.shape[:-1], m.n)))

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 3), n=4), X)
    assert not table.by_name["a.weight[0]"].locked
    assert numbers(table) == {"n": ["a.weight[0]"]}


def test_a_check_of_equal_sizes_says_which_size_a_number_is() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x)
        assert y.shape[-1] == m.n
        return m.b(y)

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 3), n=4), X)
    assert numbers(table) == {"n": ["a.weight[0]"]}
    assert not table.by_name["a.weight[0]"].locked


def test_sizes_that_are_equal_in_a_branch_stay_equal() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y, z = m.a(x), m.b(x)
        return m.c(y) + m.d(z) if y.shape[-1] == z.shape[-1] else m.c(y)

    parts = {"a": nn.Linear(5, 4), "b": nn.Linear(5, 4), "c": nn.Linear(4, 2), "d": nn.Linear(4, 2)}
    (equality,) = discover(Small(run, **parts), X).equalities
    assert [show([size]) for size in equality.sizes] == ["a.weight[0]", "b.weight[0]"]


def test_a_size_of_a_tensor_given_to_an_op_that_does_not_say_what_it_does_locks() -> None:
    table = discover(Small(lambda m, x: m.a(x).roll(m.a(x).shape[-1], 1), a=nn.Linear(5, 4)), X)
    assert "its size is given to an op that does not say what it does with it" in reasons(table, "a.weight[0]")


def test_an_expression_used_as_a_number_concerns_what_it_stands_for() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x).unflatten(-1, (m.h, -1))
        return y / (m.a(x).shape[-1] // m.h)

    table = discover(Small(run, a=nn.Linear(5, 12), h=3), X)
    assert size_matters(table, "a.weight[0].1")
    assert not size_matters(table, "a.weight[0].0")


def test_a_number_that_also_sizes_something_else_is_locked() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x).view(*x.shape[:-1], m.n)
        return y + x[:, :1].new_ones(x.shape[0], m.n, 1).sum(1, keepdim=True)

    table = discover(Small(run, a=nn.Linear(5, 4), n=4), X)
    assert "its size n is also the size of something that no parameter holds" in reasons(table, "a.weight[0]")


def test_a_number_of_entries_that_the_run_takes_for_the_length_of_the_data_locks() -> None:
    """All positions are added, so that there have to be as many as the convolution leaves."""

    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x).transpose(1, 2)
        return m.b(x + m.table(torch.arange(m.table.num_embeddings)))

    parts = {"a": nn.Conv1d(7, 4, 1, stride=2), "b": nn.Linear(4, 2), "table": nn.Embedding(3, 4)}
    table = discover(Small(run, **parts), X)
    reason = "its size table.num_embeddings is also the size of something that no parameter holds"
    assert reasons(table, "table.weight[0]") == [reason]
    assert reasons(table, "a.weight[0]") == []


def test_an_op_that_does_not_say_what_it_does_with_a_size_locks() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.a(x).view(*x.shape[:-1], m.n).roll(m.n, 1)

    table = discover(Small(run, a=nn.Linear(5, 4), n=4), X)
    assert "its size n is given to an op that does not say what it does with it" in reasons(table, "a.weight[0]")


def test_numbers_that_size_nothing_of_a_parameter_are_left_out() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.a(x.view(*x.shape[:1], m.time, -1)) + torch.zeros(m.time, 1)

    assert numbers(discover(Small(run, a=nn.Linear(5, 4), time=7), X)) == {}


def test_a_number_that_stays_zero_pads_nothing() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y = F.relu(m.a(x).view(*x.shape[:2], m.h, m.d))
        return m.b(F.pad(y, (0, 0, 0, m.total - m.h)).flatten(2))

    def axes(total: int) -> AxisTable:
        return discover(Small(run, a=nn.Linear(5, 12), b=nn.Linear(4 * total, 2), h=3, d=4, total=total), X)

    assert numbers(axes(3)) == {"h": [H], "d": [D], "total": [H]}
    assert not axes(3).by_name[H].locked
    assert "is given to an op that does not say what it does with it" in reasons(axes(4), H)[-1]


def test_a_number_of_equal_parts_is_the_size_of_one() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        first, second, third = m.a(x).view(2, 7, -1, 3 * m.d).chunk(3, -1)
        first, second = (torch.cat([-y[..., : m.r], y[..., m.r :]], -1) for y in (first, second))
        return m.b((first * second).flatten(2)) + m.c(third.flatten(2))

    model = Small(run, a=nn.Linear(5, 30), b=nn.Linear(10, 2), c=nn.Linear(10, 2), d=5, r=2)
    table = discover(model, X)
    assert not any(axis.locked for axis in table if axis.kind not in ("input", "output"))
    heads, turned, kept, third = (axis.name for axis in table if axis.name.startswith("a.weight[0]"))
    assert numbers(table)["r"] == [turned]
    assert set(numbers(table)["d"]) <= {f"[{turned}|{kept}]", f"[{kept}|{turned}]", third}
    with pytest.raises(TieError):
        grow(model, widen={third: 6}, example_inputs=X)
    report = grow(model, widen={heads: 3, third: 7, turned: 3, kept: 4}, example_inputs=X)
    assert report.verification.passed
    assert (model.d, model.r) == (7, 3)
