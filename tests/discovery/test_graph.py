"""The run as a graph."""

import torch
from torch import Tensor, nn

from growkit.discovery.call import Nature
from growkit.discovery.graph import Graph
from growkit.discovery.operations import Value
from growkit.discovery.trace import Tracer
from growkit.nn.contents import Contents
from tests.discovery.models import Small, weight


def graph_of(model: nn.Module, x: Tensor) -> Graph:
    tracer = Tracer(Contents(model))
    tracer.enter_input(x)
    with tracer.running():
        tracer.leave_output(model(x))
    return tracer.graph()


def test_makers_readers_and_natures() -> None:
    """x @ w, then its double plus itself."""

    def run(m: nn.Module, x: Tensor) -> Tensor:
        y = x @ m.w
        return y * 2 + y

    graph = graph_of(Small(run, w=weight(3, 2)), torch.ones(4, 3, dtype=torch.float64))
    assert [op.name for op in graph.ops] == ["mm", "mul", "add"]
    (y,) = graph.results(0)
    assert graph.readers(y) == [1, 2]
    assert graph.maker(y) is graph.ops[0]
    assert graph.nature(y) is Nature.ACTIVATION
    given = graph.ops[0].arguments["mat2"]
    assert (graph.nature(given), graph.maker(given), graph.parameters[given.tensor]) == (Nature.WEIGHT, None, "w")
    assert graph.outputs == {graph.results(2)[0]}
    (leaf,) = graph.of_axis(y, graph.serial(graph.leaves(given)[1][0]))
    assert leaf.size == 2


def test_a_value_changed_behind_a_view_has_no_maker() -> None:
    def run(m: nn.Module, x: Tensor) -> Tensor:
        y = x * m.w
        y[:, :1].add_(1.0)
        return y + x

    graph = graph_of(Small(run, w=weight(3)), torch.ones(4, 3, dtype=torch.float64))
    (number,) = [n for n, op in enumerate(graph.ops) if op.name == "add" and graph.changes_behind(n)]
    last = graph.ops[-1].arguments["self"]
    assert last == Value(graph.results(0)[0].tensor, number)
    assert graph.maker(last) is None
    assert not graph.changes_behind(0)
