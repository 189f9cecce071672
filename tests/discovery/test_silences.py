"""Which parameters make new units zero in a value."""

from typing import Any

import torch
from torch import Tensor, nn

from growkit.discovery.cuts import Cuts
from growkit.discovery.discover import discover
from growkit.discovery.silences import Silences
from growkit.growth.api import grow
from tests.discovery.models import Small, weight
from tests.discovery.test_cuts import X, parts, read_by_exp
from tests.discovery.test_graph import graph_of

FRAMES = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_what_lies_beside_zero_queries_need_not_be_zero() -> None:
    """But a whole value is not scaled by what scales a part of it."""
    graph = graph_of(Small(lambda m, x: torch.cat([m.a(x), m.d(x), x], -1).exp(), **parts()), X)
    number, value = read_by_exp(graph)
    serial = graph.serial(graph.leaves(value)[-1][1])
    leaves = Silences(graph).silencing(value, serial)
    assert {graph.parameters[leaf.parameter.tensor] for leaf in leaves} == {"d.weight", "d.bias"}
    assert Cuts(graph).above(value, serial, number) is None


def test_zero_queries_are_zero_after_a_function_that_keeps_zero() -> None:
    graph = graph_of(Small(lambda m, x: (m.a(x) * 2).exp(), **parts()), X)
    _, value = read_by_exp(graph)
    leaves = Silences(graph).silencing(value, graph.serial(graph.leaves(value)[-1][0]))
    assert {graph.parameters[leaf.parameter.tensor] for leaf in leaves} == {"a.weight", "a.bias"}


def test_units_of_which_both_neighbours_are_zero_are_zero_when_turned() -> None:
    """As by rotary positions over neighbours."""

    def turned(m: Any, x: Tensor) -> Tensor:
        first, second = m.a(x).unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([-second, first], -1).flatten(-2).exp()

    graph = graph_of(Small(turned, a=nn.Linear(5, 6)), X)
    _, value = read_by_exp(graph)
    leaves = Silences(graph).silencing(value, graph.serial(graph.leaves(value)[-1][0]))
    assert {graph.parameters[leaf.parameter.tensor] for leaf in leaves} == {"a.weight", "a.bias"}


def attention(key: str) -> Small:
    """Queries and keys, of which the gains are one parameter."""

    def run(m: Any, x: Tensor) -> Tensor:
        query, keys = m.a(x) * m.g, getattr(m, key)(x) * m.g
        return m.c((query @ keys.mT * m.scale).softmax(-1) @ m.b(x))

    return Small(
        run, a=nn.Linear(5, 3), b=nn.Linear(5, 3), c=nn.Linear(3, 2), d=nn.Linear(5, 3), g=weight(3), scale=0.5
    )


def test_of_two_values_those_of_their_own_are_taken() -> None:
    """Which one gain for both is not."""
    model = attention("d")
    before = model(FRAMES)
    grown = grow(model, widen={"a.weight[0]": 5}, example_inputs=FRAMES).model
    assert grown.a.weight.shape == grown.d.weight.shape == (5, 5)
    torch.testing.assert_close(grown(FRAMES), before, rtol=1e-12, atol=1e-14)


def test_one_parameter_for_both_is_refused() -> None:
    table = discover(attention("a"), FRAMES)
    lock, *_ = table.by_name["a.weight[0]"].locks
    assert "the same entries of a parameter make" in lock.reason
    assert lock.next_step == "let a parameter of its own make each of the two; or grow another axis"
