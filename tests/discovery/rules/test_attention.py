"""Tests of the rule of attention kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.axes.layouts import Layout
from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight
from tests.discovery.written import check_layouts

MASK = torch.ones(7, 7, dtype=torch.bool).tril()


def _model(**options: object) -> Small:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (m.heads, -1)).transpose(1, 2) for f in (m.q, m.k, m.v))
        return F.scaled_dot_product_attention(q, k, v, **options)

    return Small(run, q=nn.Linear(5, 6), k=nn.Linear(5, 6), v=nn.Linear(5, 8), heads=2)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"attn_mask": torch.zeros(7, 7, dtype=torch.float64)}, {"scale": 0.5}]
)
def test_heads_and_their_dims(options: dict[str, object]) -> None:
    table = discover(_model(**options), X)
    assert str(table.layouts["k.bias"]) == "(q.weight[0].0 q.weight[0].1):produces"
    assert str(table.layouts["v.bias"]) == "(q.weight[0].0 v.weight[0].1):produces"
    assert "per_head" in passages(table, "q.weight[0].0")
    assert "contracted_queries" in passages(table, "q.weight[0].1")
    assert "contracted_queries" not in passages(table, "v.weight[0].1")
    assert reasons(table, "q.weight[0].0") == reasons(table, "q.weight[0].1") == []
    (axis,) = table["q.weight[0].1"]
    scaled = {(str(c.target), c.energy, c.size) for c in axis.corrections}
    size = 0.0 if "scale" in options else 0.5
    assert scaled == {("q.weight[0].1", -1.0, size), ("q.bias[0].1", -1.0, size)}
    assert {str(at) for at in axis.silent} == {"q.weight[0].1", "q.bias[0].1"}


GROUPED = {
    "q.weight": "(heads group qk):produces in:consumes",
    "k.weight": "(heads qk):produces in:consumes",
    "v.weight": "(heads v):produces in:consumes",
    "out.weight": "out:produces (heads group v):consumes",
}


def grouped(heads: int, group: int, qk: int, v: int, attend: Any) -> Small:
    """Attention in which `group` query heads share a key head."""

    def run(m: Small, x: Tensor) -> Tensor:
        q = m.q(x).view(*x.shape[:2], -1, m.qk).transpose(1, 2)
        k = m.k(x).view(*x.shape[:2], -1, m.qk).transpose(1, 2)
        v = m.v(x).view(*x.shape[:2], -1, m.width).transpose(1, 2)
        return m.out(attend(m, q, k, v).transpose(1, 2).flatten(2))

    sizes = {"q": heads * group * qk, "k": heads * qk, "v": heads * v}
    layers = {name: nn.Linear(5, size, bias=False) for name, size in sizes.items()}
    return Small(run, **layers, out=nn.Linear(heads * group * v, 3, bias=False), qk=qk, width=v, group=group)


def by_kernel(**options: Any) -> Any:
    return lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)


def by_repetition(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys and values repeated for each query head, scores written out: as in `transformers`."""
    batch, heads, time, _ = k.shape
    shape = (batch, heads, m.group, time)
    k = k[:, :, None].expand(*shape, k.shape[-1]).reshape(batch, heads * m.group, time, k.shape[-1])
    v = v[:, :, None].expand(*shape, v.shape[-1]).reshape(batch, heads * m.group, time, v.shape[-1])
    return (torch.matmul(q, k.transpose(2, 3)) * 0.5).softmax(-1) @ v


def by_interleaving(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = (x.repeat_interleave(m.group, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, scale=0.5)


KINDS = [
    by_kernel(), by_kernel(is_causal=True), by_kernel(scale=0.3), by_kernel(attn_mask=MASK), by_repetition,
    by_interleaving,
]  # fmt: skip


@pytest.mark.parametrize("attend", KINDS)
@pytest.mark.parametrize("sizes", [(2, 3, 4, 6), (2, 3, 4, 4), (3, 2, 5, 5), (3, 3, 3, 3), (2, 2, 2, 4)])
def test_query_heads_are_key_heads_times_a_group(attend: Any, sizes: tuple[int, int, int, int]) -> None:
    heads, group, qk, v = sizes
    model = grouped(heads, group, qk, v, attend)
    table = discover(model, X)
    check_layouts(table, GROUPED)
    axes = {axis.name: axis for axis in table}
    assert [axes[f"q.weight[0].{i}"].size for i in range(3)] == [heads, group, qk]
    assert [axes[f"q.weight[0].{i}"].kind for i in range(3)] == ["heads", "heads", "head_dim"]
    for axis, size in (("q.weight[0].0", heads), ("q.weight[0].1", group)):
        assert reasons(table, axis) == []
        assert deviation_after_copies(model, X, {axis: [*range(size), 0, 0, size - 1]}) < 1e-12
    both = {"q.weight[0].0": [*range(heads), 1], "q.weight[0].1": [*range(group), 0], "v.weight[0].1": [*range(v), 2]}
    if v == qk and attend is not by_repetition and attend is not by_interleaving:
        del both["v.weight[0].1"]  # the choice of the kernel asks whether it is as large as that of the keys
    assert deviation_after_copies(model, X, both) < 1e-12


@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (2, 2)])
def test_key_heads_repeated_as_a_whole(sizes: tuple[int, int]) -> None:
    def attend(m: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (x.repeat(1, m.group, 1, 1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, scale=0.5)

    heads, group = sizes
    model = grouped(heads, group, 3, 5, attend)
    check_layouts(
        discover(model, X),
        GROUPED
        | {"q.weight": "(group heads qk):produces in:consumes", "out.weight": "out:produces (group heads v):consumes"},
    )
    sources = {"q.weight[0].0": [*range(group), 0], "q.weight[0].1": [*range(heads), 0, 1]}
    assert deviation_after_copies(model, X, sources) < 1e-12


def test_one_key_head_for_all_query_heads() -> None:
    model = grouped(1, 3, 4, 6, by_kernel())
    table = discover(model, X)
    assert str(table.layouts["q.weight"].dims[0]) == str(Layout.parse("(q.weight[0].0 q.weight[0].1):produces").dims[0])
    assert str(table.layouts["k.weight"]) == "q.weight[0].1:produces q.weight[1]:consumes"
    assert reasons(table, "q.weight[0].0") == []
    assert deviation_after_copies(model, X, {"q.weight[0].0": [0, 1, 2, 0, 2]}) < 1e-12


def test_a_bias_of_the_scores_that_is_a_parameter_writes_heads() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (m.heads, -1)).transpose(1, 2) for f in (m.q, m.k, m.v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=m.bias, scale=0.5)
        return m.out(mixed.transpose(1, 2).flatten(2))

    model = Small(
        run, q=nn.Linear(5, 6), k=nn.Linear(5, 6), v=nn.Linear(5, 8), heads=2, bias=weight(2, 7, 7), out=nn.Linear(8, 3)
    )
    table = discover(model, X)
    assert str(table.layouts["bias"].dims[0]) == str(Layout.parse("q.weight[0].0:produces").dims[0])
    assert reasons(table, "q.weight[0].0") == []
    assert deviation_after_copies(model, X, {"q.weight[0].0": [0, 1, 1]}) < 1e-12
    assert "softmax" in " ".join(reasons(table, "bias[2]"))


def test_a_causal_mask_goes_by_the_order_of_what_parameters_hold() -> None:
    def run(m: Small, x: Tensor, **options: Any) -> Tensor:
        kv = m.kv(x)[:, None]
        mixed = F.scaled_dot_product_attention(m.queries.expand(2, 1, -1, -1), kv, kv, scale=0.5, **options)
        return m.out(mixed.squeeze(1).mean(1))

    parts = {"kv": nn.Linear(5, 4), "queries": weight(6, 4), "out": nn.Linear(4, 3)}
    causal = discover(Small(lambda m, x: run(m, x, is_causal=True), **parts), X)
    assert "a causal mask goes by the order of its units" in reasons(causal, "queries[0]")
    assert "order" not in " ".join(reasons(discover(Small(run, **parts), X), "queries[0]"))


@pytest.mark.parametrize("by", ["kernel", "baddbmm"])
def test_a_slope_for_each_head_that_the_forward_pass_makes_locks_heads(by: str) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (m.heads, -1)).transpose(1, 2) for f in (m.q, m.k, m.v))
        places = torch.arange(x.shape[1], dtype=x.dtype)
        slopes = (torch.arange(m.heads, dtype=x.dtype) + m.first)[:, None, None] * places
        if by == "kernel":
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=slopes.expand(-1, 7, -1)[None], scale=0.5)
        else:
            q, k, v = (y.reshape(x.shape[0] * m.heads, 7, -1) for y in (q, k, v))
            scores = slopes[None].expand(x.shape[0], -1, -1, -1).reshape(x.shape[0] * m.heads, 1, 7)
            mixed = (scores.baddbmm(q, k.mT).softmax(-1) @ v).view(x.shape[0], m.heads, 7, -1)
        return m.out(mixed.transpose(1, 2).flatten(2))

    parts = {"q": nn.Linear(5, 6), "k": nn.Linear(5, 6), "v": nn.Linear(5, 8), "out": nn.Linear(8, 3)}
    table = discover(Small(run, heads=2, first=1.0, **parts), X)
    assert any("a table that the forward pass makes" in reason for reason in reasons(table, "q.weight[0].0"))
