"""Tests of the rules of scalar products, distances and forms."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight


def test_a_scalar_product_with_a_parameter_consumes() -> None:
    model = Small(
        lambda m, x: m.b(x[0]) * torch.dot(m.a(x)[0, 0], m.v), a=nn.Linear(5, 4), v=weight(4), b=nn.Linear(5, 2)
    )
    table = discover(model, X)
    assert str(table.layouts["v"]) == "a.weight[0]:consumes"
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 0]}) < 1e-12


def test_a_scalar_product_of_two_activations_locks() -> None:
    for product in (torch.dot, torch.vdot):
        model = Small(lambda m, x, f=product: x * f(m.a(x)[0, 0], m.a(x)[0, 1]), a=nn.Linear(5, 4))
        assert "two activations are contracted" in reasons(discover(model, X), "a.weight[0]")[0]


@pytest.mark.parametrize("size", [3, 4])
def test_distances_to_centres(size: int) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(torch.cdist(m.a(x), m.centres))

    model = Small(run, a=nn.Linear(5, 4), centres=weight(size, 4), b=nn.Linear(size, 2))
    table = discover(model, X)
    assert str(table.layouts["centres"]).split(" ")[0] == "centres[0]:produces"
    assert "distances are taken over it, to which every unit adds" in reasons(table, "a.weight[0]")
    assert passages(table, "centres[0]") == {"pointwise:cdist"}
    assert deviation_after_copies(model, X, {"centres[0]": [*range(size), 0]}) < 1e-12


@pytest.mark.parametrize(("left", "right", "out"), [(2, 3, 6), (4, 4, 4)])
def test_a_form_consumes_both_sides_and_produces(left: int, right: int, out: int) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.d(m.c(m.a(x), m.b(x)))

    parts = {"a": nn.Linear(5, left), "b": nn.Linear(5, right), "d": nn.Linear(out, 2)}
    model = Small(run, c=nn.Bilinear(left, right, out), **parts)
    table = discover(model, X)
    assert str(table.layouts["c.weight"]) == "c.weight[0]:produces a.weight[0]:consumes b.weight[0]:consumes"
    assert str(table.layouts["c.bias"]) == "c.weight[0]:produces"
    sources = {"a.weight[0]": [*range(left), 0], "b.weight[0]": [*range(right), 1], "c.weight[0]": [*range(out), 0, 1]}
    assert deviation_after_copies(model, X, sources) < 1e-12


def test_a_form_of_three_activations_is_locked() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return torch.nn.functional.bilinear(x, x, m.w(x)[0, :4].unflatten(-1, (5, -1)))

    model = Small(run, w=nn.Linear(5, 25))
    assert any("a form other than" in r for axis in discover(model, X) for r in [lock.reason for lock in axis.locks])
