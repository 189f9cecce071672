"""Tests of the rules of matrix products."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from growkit.axes.expressions import Leaf, Role
from growkit.discovery.discover import discover
from growkit.testing import randomise
from growkit.testing.sweep import Sweep
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight


def test_linear_with_and_without_bias_for_any_rank() -> None:
    for x in (X[0, 0].clone(), X[0], X, X[None]):
        for bias in (True, False):
            model = Small(lambda m, x: m.b(m.a(x)), a=nn.Linear(5, 4, bias), b=nn.Linear(4, 3, bias))
            table = discover(model, x)
            assert str(table.layouts["a.weight"]) == "a.weight[0]:produces a.weight[1]:consumes"
            assert str(table.layouts["b.weight"]) == "b.weight[0]:produces a.weight[0]:consumes"
            assert not bias or str(table.layouts["b.bias"]) == "b.weight[0]:produces"


def test_a_parameter_on_the_right_of_a_product() -> None:
    table = discover(Small(lambda m, x: x @ m.w @ m.v, w=weight(5, 4), v=weight(4, 3)), X)
    assert str(table.layouts["w"]) == "w[0]:consumes w[1]:produces"
    assert str(table.layouts["v"]) == "w[1]:consumes v[1]:produces"


def test_two_activations_are_contracted_over_one_axis_for_each_of_another() -> None:
    def run(m: Small, x: torch.Tensor) -> torch.Tensor:
        q, k = (f(x).unflatten(-1, (m.heads, -1)).transpose(1, 2) for f in (m.q, m.k))
        return q @ k.transpose(-1, -2)

    table = discover(Small(run, q=nn.Linear(5, 6), k=nn.Linear(5, 6), heads=2), X)
    assert passages(table, "q.weight[0].0") == {"per_head", "output"}
    assert passages(table, "q.weight[0].1") == {"contracted_queries"}
    assert str(table.layouts["k.weight"]).startswith("(q.weight[0].0 q.weight[0].1):produces")


def test_a_table_buffer_read_by_a_parameter_is_an_activation() -> None:
    model = Small(lambda m, x: m.a(x) + m.b(m.table), a=nn.Linear(5, 4), b=nn.Linear(6, 4), table=torch.rand(7, 6))
    table = discover(model, X)
    assert table.layouts["b.weight"].dims == (Leaf("a.weight[0]", Role.PRODUCES), Leaf("table[1]", Role.CONSUMES))
    assert table.layouts["table"].dims[1] == Leaf("table[1]", Role.PRODUCES)
    assert reasons(table, "table[1]") == []


def test_a_fixed_projection_buffer_produces_and_consumes() -> None:
    table = discover(Small(lambda m, x: m.a(x) @ m.p, a=nn.Linear(5, 4), p=torch.rand(4, 3)), X)
    assert str(table.layouts["p"]) == "a.weight[0]:consumes p[1]:produces"


def test_the_rank_of_a_product_of_parameters_is_an_axis() -> None:
    model = Small(lambda m, x: m.c(m.a(x) @ (m.u @ m.v)), a=nn.Linear(5, 4), u=weight(4, 2), v=weight(2, 3),
                  c=nn.Linear(3, 2))  # fmt: skip
    table = discover(model, X)
    assert str(table.layouts["u"]) == "a.weight[0]:consumes v[0]:consumes"
    assert str(table.layouts["v"]) == "v[0]:produces v[1]:produces"
    assert [reasons(table, name) for name in ("v[0]", "v[1]", "a.weight[0]")] == [[], [], []]


def test_a_parameter_contracted_with_itself_is_locked() -> None:
    model = Small(lambda m, x: m.c(m.a(x) @ (m.w @ m.w.T)), a=nn.Linear(5, 4), w=weight(4, 2), c=nn.Linear(4, 2))
    table = discover(model, X)
    assert reasons(table, "w[1]")[0] == "a parameter that is contracted with another one has a second use"
    assert "one tensor produces and consumes it" in reasons(table, "w[0]")[0]


def test_parameters_contracted_in_batches() -> None:
    def run(m: Small, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bti,kio->bto", m.a(x), torch.bmm(m.u, m.v)) @ m.w

    model = Small(run, a=nn.Linear(5, 4), u=weight(3, 4, 2), v=weight(3, 2, 6), w=weight(6, 2))
    table = discover(model, X)
    assert str(table.layouts["u"]).endswith("a.weight[0]:consumes v[1]:consumes")
    assert str(table.layouts["v"]).endswith("v[1]:produces v[2]:produces")


def test_a_constant_vector_is_read_like_one_unit_many_times() -> None:
    """An initial state of zeros has no values of its own for the units; a ramp has."""

    def run(m: Small, x: torch.Tensor) -> torch.Tensor:
        return m.a(x) + m.state(x) @ m.w

    model = Small(run, a=nn.Linear(5, 4), w=weight(4, 4))
    model.state = lambda x: x.new_zeros(model.a.out_features)
    table = discover(model, X)
    assert passages(table, "w[0]") == {"pointwise:constant"}
    model.state = lambda x: torch.arange(model.a.out_features).to(x)
    assert "a table that the forward pass makes" in reasons(discover(model, X), "w[0]")[0]


def test_one_matrix_for_each_of_the_batch() -> None:
    """As in a linear layer with blocks: each block, and each of its units, has its own."""

    def run(m: Small, x: Tensor) -> Tensor:
        blocks = m.a(x).unflatten(-1, (m.n, m.k)).flatten(0, 1).transpose(0, 1)
        blocks = torch.tanh(torch.baddbmm(m.bias, blocks, m.w))
        return m.b(blocks.transpose(0, 1).flatten(1)).unflatten(0, x.shape[:2])

    parts = {"w": weight(3, 2, 4), "bias": weight(3, 1, 4)}
    model = Small(run, a=nn.Linear(5, 6), b=nn.Linear(12, 2), n=3, k=2, **parts)
    table = discover(model, X)
    assert str(table.layouts["w"]) == "a.weight[0].0:gain a.weight[0].1:consumes w[2]:produces"
    for sources in ({"a.weight[0].0": [0, 1, 2, 1, 2]}, {"a.weight[0].1": [0, 1, 1]}, {"w[2]": [0, 1, 2, 3, 0]}):
        assert deviation_after_copies(model, X, sources) < 1e-12
    sweep = Sweep(randomise(model.double()).eval(), X)
    sweep.every_axis()
    assert sweep.of("wrong") == sweep.of("caught") == []
    assert {"a.weight[0].0", "a.weight[0].1", "w[2]"} <= sweep.grown
