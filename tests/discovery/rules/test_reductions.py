"""Tests of the rules of reductions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from growkit.axes.expressions import Leaf, Role
from growkit.discovery.discover import discover
from tests.discovery.models import Small, X, passages, reasons, weight


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: x - x.mean(-1, keepdim=True), "sum"),
        (lambda x: x / x.sum(-1, keepdim=True), "sum"),
        (lambda x: x - x.amax(-1, keepdim=True), "reduce:amax"),
        (lambda x: x / x.norm(dim=-1, keepdim=True), "mean_square"),
        (lambda x: x / x.var(-1, keepdim=True), "reduce:var"),
        (lambda x: x / x.std(-1, True, keepdim=True), "reduce:std"),
        (lambda x: x / x.var(-1, correction=0.5, keepdim=True), "reduce:var"),
        (lambda x: x / x.var(-1, correction=0, keepdim=True), "reduce:variance"),
        (lambda x: x / x.std(-1, False, keepdim=True), "reduce:variance"),
        (lambda x: x / torch.var_mean(x, -1, unbiased=False, keepdim=True)[0], "reduce:variance"),
        (lambda x: x - torch.std_mean(x, -1, keepdim=True)[1], "reduce:std_mean"),
        (lambda x: x - x.max(-1, keepdim=True)[0], "reduce:max"),
        (lambda x: x * x.mean(), "sum"),
        (lambda x: x.softmax(-1), "softmax"),
        (lambda x: x.log_softmax(-1), "softmax"),
    ],
)
def test_a_reduction_over_the_axis_is_noted(function: object, kind: str) -> None:
    model = Small(lambda m, x: m.b(function(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    table = discover(model, X)
    assert kind in passages(table, "a.weight[0]")
    assert table.layouts["b.weight"].dims[1] == Leaf("a.weight[0]", Role.CONSUMES)


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (lambda x: x.mean(1), set()),
        (lambda x: x.sum(1, keepdim=True), set()),
        (lambda x: x.amax(1), {"pointwise:amax"}),
        (lambda x: x.softmax(1), {"pointwise:softmax"}),
    ],
)
def test_a_reduction_over_time_is_linear_or_pointwise(function: object, kinds: set[str]) -> None:
    table = discover(Small(lambda m, x: m.b(function(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert passages(table, "a.weight[0]") == kinds


def test_a_parameter_that_is_reduced_is_locked() -> None:
    model = Small(lambda m, x: x @ (m.w / m.w.norm(p=1, dim=1, keepdim=True)), w=weight(5, 4))
    assert any("a parameter is reduced" in reason for reason in reasons(discover(model, X), "w[1]"))


def test_maximum_of_two_tensors_is_elementwise() -> None:
    model = Small(lambda m, x: torch.max(m.a(x), m.b(x)), a=nn.Linear(5, 4), b=nn.Linear(5, 4))
    assert str(discover(model, X).layouts["b.bias"]) == "a.weight[0]:produces"
