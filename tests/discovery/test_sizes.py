"""Tests of where ints become sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.axes.patterns import show
from growkit.discovery.discover import discover
from tests.discovery.models import Small, X, passages, reasons, size_matters


@pytest.mark.parametrize(
    "use",
    [
        lambda m, y: y.view(2, 7, m.n),
        lambda m, y: y.view((2, 7, m.n)),
        lambda m, y: y.reshape(-1, m.n),
        lambda m, y: y.expand(2, 7, m.n),
        lambda m, y: y + torch.zeros(m.n),
        lambda m, y: y + torch.ones((7, m.n)),
        lambda m, y: y + torch.zeros(size=(m.n,)),
        lambda m, y: y + torch.full((m.n,), 0.5),
        lambda m, y: y + y.new_zeros(m.n),
        lambda m, y: F.layer_norm(y, (m.n,)),
        lambda m, y: y.split(m.n, -1)[0],
        lambda m, y: y.split([m.n], dim=-1)[0],
        lambda m, y: y.narrow(-1, 0, m.n),
        lambda m, y: F.conv1d(y.transpose(1, 2), m.kernel, groups=m.n),
    ],
)
def test_ints_are_paired_with_the_axes_they_size(use: Any) -> None:
    kernel = nn.Parameter(torch.ones(4, 1, 3))
    table = discover(Small(lambda m, x: use(m, m.a(x)), a=nn.Linear(5, 4), n=4, kernel=kernel), X)
    (number,) = (n for n in table.numbers if n.read)
    assert (number.path, number.value, [show([s]) for s in number.sizes]) == ("n", 4, ["a.weight[0]"])


@pytest.mark.parametrize(
    "use",
    [
        lambda m, y: torch.cat([y[..., : m.n], y[..., m.n :]], -1),
        lambda m, y: torch.cat([y.narrow(-1, 0, m.n), y[..., m.n :]], -1),
        lambda m, y: torch.cat(y.split([m.n, m.k], -1), -1),
    ],
)
def test_prefixes_of_an_axis_are_sized_by_the_int_that_cuts_it(use: Any) -> None:
    table = discover(Small(lambda m, x: use(m, m.a(x)), a=nn.Linear(5, 5), n=2, k=3), X)
    sizes = {n.path: [show([s]) for s in n.sizes] for n in table.numbers if n.read}
    assert sizes["n"] == ["a.weight[0].0"]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("literal", [False, True])
def test_slices_that_are_taken_before_anything_is_written_there(late: bool, literal: bool) -> None:
    """What is written brings the axes; `late`: both slices are taken first."""

    def run(m: Small, x: Tensor) -> Tensor:
        both = x.new_empty(*x.shape[:-1], m.n + m.k)
        first = both[..., : m.n]
        second = both[..., 4:] if literal else both[..., m.n :]
        if late:
            second.copy_(m.b(x))
        first.copy_(m.a(x))
        second.copy_(m.b(x))
        return m.c(both)

    parts = {"a": nn.Linear(5, 4), "b": nn.Linear(5, 3), "c": nn.Linear(7, 2)}
    table = discover(Small(run, **parts, n=4, k=3), X)
    sizes = {n.path: [show([s]) for s in n.sizes] for n in table.numbers if n.read}
    assert sizes["n"] == ["a.weight[0]"]
    assert bool(reasons(table, "a.weight[0]")) is literal
    if not literal:
        assert sizes["k"] == ["b.weight[0]"]
        assert reasons(table, "b.weight[0]") == []


def test_a_literal_slice_locks_the_part_before_it() -> None:
    table = discover(Small(lambda m, x: m.a(x)[..., :2], a=nn.Linear(5, 5)), X)
    assert "its size 2 is written in the code" in " ".join(reasons(table, "a.weight[0].0"))


def test_slices_over_time_are_nobody_s_business() -> None:
    table = discover(Small(lambda m, x: m.b(m.a(x)[:, 1:3]), a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert reasons(table, "a.weight[0]") == []


def test_attention_without_scale_uses_the_size_as_a_number() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x).unsqueeze(1)
        return F.scaled_dot_product_attention(y, y, x.unsqueeze(1))

    assert size_matters(discover(Small(run, a=nn.Linear(5, 4)), X), "a.weight[0]")


def test_multi_head_attention_of_torch() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.enter(x)
        return m.leave(x + m.attention(x, x, x, need_weights=False)[0])

    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    table = discover(Small(run, enter=nn.Linear(5, 8), attention=attention, leave=nn.Linear(8, 3)), X)
    heads, key, dim = (f"attention.in_proj_weight[0].{i}" for i in (0, 1, 5))
    assert str(table.layouts["attention.out_proj.weight"]) == f"enter.weight[0]:produces ({heads} {dim}):consumes"
    sizes = {n.path: [show([s]) for s in n.sizes] for n in table.numbers if n.path.startswith("attention")}
    assert sizes["attention.num_heads"] == [heads]
    assert sizes["attention.head_dim"] == [dim]
    assert sizes["attention.embed_dim"] == ["enter.weight[0]"]
    assert [[show([s]) for s in e.sizes] for e in table.equalities] == [
        ["enter.weight[0]", f"({heads} {dim})"],
        [f"({heads} {key})", f"({heads} {dim})"],
    ]
    assert "contracted_queries" in passages(table, key)
    assert {(c.energy, c.size) for c in table.by_name[key].corrections} == {(-1.0, 0.5)}
