"""Tests of the rules of matrix products and convolutions."""

from __future__ import annotations

import torch
from torch import nn

from growkit.axes.expressions import Leaf, Role
from growkit.discovery.discover import discover
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
    assert passages(table, "q.weight[0].1") == {"contracted_activations"}
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


def test_two_parameters_that_are_contracted_are_locked() -> None:
    table = discover(Small(lambda m, x: x @ (m.u @ m.v), u=weight(5, 2), v=weight(2, 3)), X)
    assert reasons(table, "u[1]") == ["two parameters are contracted by mm"]


def test_convolution_produces_and_consumes_channels() -> None:
    model = Small(lambda m, x: m.b(m.a(x.transpose(1, 2))), a=nn.Conv1d(5, 4, 3), b=nn.Conv1d(4, 6, 2, bias=False))
    table = discover(model, X)
    assert str(table.layouts["b.weight"]) == "b.weight[0]:produces a.weight[0]:consumes b.weight[2]"
    assert reasons(table, "b.weight[2]") == ["it counts the places of a convolution kernel"]
    (axis,) = table["a.weight[0]"]
    assert (axis.kind, axis.locked) == ("channels", False)


def test_a_depthwise_kernel_is_a_gain() -> None:
    model = Small(lambda m, x: m.b(m.a(x).transpose(1, 2)), a=nn.Linear(5, 4), b=nn.Conv1d(4, 4, 3, groups=4))
    table = discover(model, X)
    assert str(table.layouts["b.weight"]) == "a.weight[0]:gain 1 b.weight[2]"
    assert str(table.layouts["b.bias"]) == "a.weight[0]:produces"
    assert passages(table, "a.weight[0]") == {"depthwise_conv", "output"}


def test_other_groups_and_transposed_convolutions_lock() -> None:
    model = Small(lambda m, x: m.b(m.a(x).transpose(1, 2)), a=nn.Linear(5, 4), b=nn.Conv1d(4, 4, 3, groups=2))
    assert reasons(discover(model, X), "a.weight[0]") == ["a convolution in 2 groups of 4 channels"]
    model = Small(lambda m, x: m.b(m.a(x).transpose(1, 2)), a=nn.Linear(5, 4), b=nn.ConvTranspose1d(4, 3, 2))
    assert "transposed" in reasons(discover(model, X), "a.weight[0]")[0]
