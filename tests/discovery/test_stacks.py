"""Products taken apart block by block."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor, nn

from growkit.axes.show import show
from growkit.discovery.discover import discover
from tests.discovery.models import Small, X, reasons, weight

Run = Callable[[Small, Tensor], Tensor]


def mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).flatten(2)


def unbound(m: Small, x: Tensor) -> Tensor:
    return m.out(mixed(*m.qkv(x).view(2, 7, 3, m.heads, -1).permute(2, 0, 3, 1, 4)))


def selected(m: Small, x: Tensor) -> Tensor:
    """As `nn.MultiheadAttention` does it: heads are split after the blocks are picked."""
    blocks = m.qkv(x).unflatten(-1, (3, -1)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
    return m.out(mixed(*(blocks[i].unflatten(-1, (m.heads, -1)).transpose(1, 2) for i in range(3))))


def inside_heads(m: Small, x: Tensor) -> Tensor:
    x = m.qkv(x).view(2, 7, m.heads, 3, -1)
    return m.out(mixed(*(x[..., i, :].transpose(1, 2) for i in range(3))))


def model(run: Run, heads: int = 2, dim: int = 4) -> Small:
    parts = {"qkv": nn.Linear(5, 3 * heads * dim), "out": nn.Linear(heads * dim, 5), "gain": weight(heads, dim)}
    return Small(run, **parts, heads=heads)


@pytest.mark.parametrize(("heads", "dim"), [(2, 4), (3, 3), (5, 5), (7, 7)])
@pytest.mark.parametrize("run", [unbound, selected, inside_heads])
def test_blocks_of_different_axes_lie_one_after_the_other(run: Run, heads: int, dim: int) -> None:
    table = discover(model(run, heads, dim), X)
    h, k, v = "qkv.weight[0].0", "qkv.weight[0].1", f"qkv.weight[0].{3 if run is inside_heads else 5}"
    text = f"({h} [{k}|{k}|{v}])" if run is inside_heads else f"[({h} {k})|({h} {k})|({h} {v})]"
    assert str(table.layouts["qkv.bias"]) == f"{text}:produces"
    assert show([table.layouts["out.weight"].dims[1]]) == f"({h} {v}):consumes"
    assert [reasons(table, name) for name in (h, k, v)] == [[], [], []]
    (axis,) = table[k]
    assert {str(at) for at in axis.silent} == {f"qkv.{name}[0].1" for name in ("weight", "bias")}, "queries, not keys"
    same = ([k], [v]) if run is not selected else ([h, k], [h, v])
    assert [[show([s]) for s in e.sizes] for e in table.equalities] == [
        [" ".join(names) if len(names) == 1 else f"({' '.join(names)})" for names in same]
    ]


def gain_before(m: Small, x: Tensor) -> Tensor:
    x = m.qkv(x).view(2, 7, 3, m.heads, -1) * m.gain
    return m.out(mixed(*x.permute(2, 0, 3, 1, 4)))


def tanh_before(m: Small, x: Tensor) -> Tensor:
    return m.out(mixed(*m.qkv(x).view(2, 7, 3, m.heads, -1).tanh().permute(2, 0, 3, 1, 4)))


def summed_as_well(m: Small, x: Tensor) -> Tensor:
    x = m.qkv(x).view(2, 7, 3, m.heads, -1).permute(2, 0, 3, 1, 4)
    return m.out(mixed(*x) + x.sum(0).transpose(1, 2).flatten(2))


def one_left(m: Small, x: Tensor) -> Tensor:
    x = m.qkv(x).view(2, 7, 3, m.heads, -1).permute(2, 0, 3, 1, 4)
    return m.out(mixed(x[0], x[0], x[2]))


@pytest.mark.parametrize("run", [gain_before, tanh_before, summed_as_well, one_left])
def test_blocks_that_are_used_together_stay_one_axis(run: Run) -> None:
    table = discover(model(run), X)
    assert str(table.layouts["qkv.bias"]) == "(qkv.weight[0].0 qkv.weight[0].1 qkv.weight[0].2):produces"
    assert "its units are picked by their number" in reasons(table, "qkv.weight[0].0")
    assert any("two activations" in reason for reason in reasons(table, "qkv.weight[0].2"))


def test_blocks_of_one_axis_stay_a_product() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        value, gate = m.up(x).view(2, 7, 2, -1).unbind(2)
        return m.down(value * gate.sigmoid())

    table = discover(Small(run, up=nn.Linear(5, 12), down=nn.Linear(6, 5)), X)
    assert str(table.layouts["up.bias"]) == "(up.weight[0].0 up.weight[0].1):produces"
    assert reasons(table, "up.weight[0].1") == []


PRODUCT = "(blocks heads dim):produces inputs:consumes"
APART = "[(heads k)|(heads k)|(heads v)]:produces inputs:consumes"


@pytest.mark.parametrize(("text", "v"), [(PRODUCT, "dim"), (APART, "v")])
def test_a_declared_layout_says_what_blocks_are(text: str, v: str) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k, v = m.qkv(x).view(2, 7, 3, m.heads, -1).permute(2, 0, 3, 1, 4)
        return m.out(mixed(q, k, v * m.gain))

    made = model(run)
    made.gain = weight(2, 1, 1)
    declared = {"qkv.weight": text, "gain": "heads 1 1", "out.weight": f"out:produces (heads {v}):consumes"}
    if v == "dim":
        declared["other"] = "blocks"
        made.other = weight(3)
    table = discover(made, X, declared)
    assert str(table.layouts["qkv.weight"]) == text


def test_a_projection_used_twice_is_taken_apart_once() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return unbound(m, x) + unbound(m, x * 2)

    table = discover(model(run), X)
    h, k, v = (f"qkv.weight[0].{i}" for i in (0, 1, 5))
    assert str(table.layouts["qkv.bias"]) == f"[({h} {k})|({h} {k})|({h} {v})]:produces"
    assert reasons(table, v) == []
