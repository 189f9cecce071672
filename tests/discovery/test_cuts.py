"""Which parameters scale a value, alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit.discovery.cuts import Cuts
from growkit.discovery.graph import Graph
from growkit.discovery.operations import Value
from tests.discovery.models import Small, weight
from tests.discovery.test_graph import graph_of

X = torch.ones(4, 5, dtype=torch.float64)


def parts() -> dict[str, Any]:
    return {"a": nn.Linear(5, 3), "b": nn.Linear(5, 3), "c": nn.Linear(2, 3), "d": nn.Linear(5, 2), "g": weight(3)}


def scaled_by(run: Callable[[Any, Tensor], Any]) -> set[str] | None:
    """The parameters that scale what the only exponential of the run reads."""
    graph = graph_of(Small(run, **parts()), X)
    number, value = read_by_exp(graph)
    serial = graph.serial(graph.leaves(value)[-1][0])
    cut = Cuts(graph).above(value, serial, number)
    return cut and {graph.parameters[leaf.parameter.tensor] for leaf in cut.leaves}


def read_by_exp(graph: Graph) -> tuple[int, Value]:
    ((number, op),) = [(n, op) for n, op in enumerate(graph.ops) if op.name == "exp"]
    return number, op.arguments["self"]


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (lambda m, x: m.a(x).exp(), {"a.weight", "a.bias"}),
        (lambda m, x: (m.a(x) * 0.5).relu().exp(), {"a.weight", "a.bias"}),
        (lambda m, x: (m.a(x) * m.g).exp(), {"g"}),
        (lambda m, x: (m.a(x) * (1 + m.g)).exp(), {"g"}),
        (lambda m, x: (m.a(x) + m.b(x)).exp(), {"a.weight", "a.bias", "b.weight", "b.bias"}),
        (lambda m, x: (m.a(x) + m.c(m.d(x))).exp(), {"a.weight", "a.bias", "c.weight", "c.bias"}),
        (lambda m, x: (m.a(x) / m.d(x).norm()).exp(), {"a.weight", "a.bias"}),
    ],
)
def test_what_scales_a_value(run: Callable[[Any, Tensor], Tensor], names: set[str]) -> None:
    assert scaled_by(run) == names


def read_twice(m: Any, x: Tensor) -> Tensor:
    y = m.a(x)
    return y.exp() + y


def read_before(m: Any, x: Tensor) -> Tensor:
    y = m.a(x)
    return (y * 2).exp() + y.tanh()


def weight_in_two_branches(m: Any, x: Tensor) -> Tensor:
    return m.a(x).exp() + m.a(x + 1)


def changed_behind(m: Any, x: Tensor) -> Tensor:
    y = m.a(x) * 2
    y[:1].mul_(3.0)
    return y.exp()


def changed_before(m: Any, x: Tensor) -> Tensor:
    y = m.a(x)
    part = y[:2]
    part.mul_(3.0)
    return part.exp() + y.sum()


@pytest.mark.parametrize(
    "run",
    [
        *(lambda m, x: m.a(x).tanh().exp(), lambda m, x: (m.a(x) + 1).exp(), lambda m, x: (m.a(x) + x.sum()).exp()),
        *(read_twice, read_before, weight_in_two_branches, changed_behind, changed_before),
    ],
)
def test_nothing_scales_a_value_that_is_read_otherwise(run: Callable[[Any, Tensor], Tensor]) -> None:
    assert scaled_by(run) is None


def test_one_of_both_neighbours_is_not_scaled_alone() -> None:
    def one(m: Any, x: Tensor) -> Tensor:
        first, second = m.a(x).unflatten(-1, (-1, 2)).unbind(-1)
        return first.exp() + second

    graph = graph_of(Small(one, a=nn.Linear(5, 6)), X)
    number, value = read_by_exp(graph)
    assert Cuts(graph).above(value, graph.serial(graph.leaves(value)[-1][0]), number) is None
