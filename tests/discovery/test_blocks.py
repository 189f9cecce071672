"""Which blocks add to what they are given, and what stands behind the sum: read off forwards written by hand."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from growkit.axes.axis import Block
from growkit.discovery.discover import discover

X = torch.randn(3, 4)


class Branch(nn.Module):
    """A block whose forward is given; it has a layer, two norms and an activation to use."""

    def __init__(self, forward: Callable[[nn.Module, Tensor], Tensor]):
        super().__init__()
        self.layer, self.norm, self.final_norm, self.act = nn.Linear(4, 4), nn.LayerNorm(4), nn.LayerNorm(4), nn.ReLU()
        self.call = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self, x)


def in_place(block: nn.Module, x: Tensor) -> Tensor:
    x += block.layer(x)
    return x


def in_place_then_relu(block: nn.Module, x: Tensor) -> Tensor:
    x += block.layer(x)
    return x.relu_()


FORWARDS: dict[str, tuple[Callable[[nn.Module, Tensor], Tensor], bool, tuple[str, ...]]] = {
    "pre-norm": (lambda b, x: x + b.layer(b.norm(x)), True, ()),
    "stream second": (lambda b, x: b.layer(x) + x, True, ()),
    "difference": (lambda b, x: x - b.layer(x), True, ()),
    "two branches": (lambda b, x: (x + b.layer(x)) + b.layer(b.norm(x)), True, ()),
    "scaled branch": (lambda b, x: x + 0.5 * b.layer(x), True, ()),
    "in place": (in_place, True, ()),
    "cloned": (lambda b, x: x.clone() + b.layer(x), True, ()),
    "final norm": (lambda b, x: b.final_norm(x + b.layer(x)), True, ("final_norm",)),
    "activation behind the sum": (lambda b, x: b.act(x + b.layer(x)), True, ("act",)),
    "two modules behind the sum": (lambda b, x: b.final_norm(b.act(x + b.layer(x))), True, ("act", "final_norm")),
    "function behind the sum": (lambda b, x: torch.relu(x + b.layer(x)), False, ()),
    "in place, then a function": (in_place_then_relu, False, ()),
    "subtracted stream": (lambda b, x: b.layer(x) - x, False, ()),
    "scaled stream": (lambda b, x: 0.5 * x + b.layer(x), False, ()),
    "scaled by alpha": (lambda b, x: torch.add(b.layer(x), x, alpha=2), False, ()),
    "normed stream": (lambda b, x: b.norm(x) + b.layer(x), False, ()),
    "no sum": (lambda b, x: b.layer(x), False, ("layer",)),
}


@pytest.mark.parametrize("name", FORWARDS)
def test_sums(name: str) -> None:
    forward, residual, tail = FORWARDS[name]
    # a layer on both sides, so that the stream belongs to parameters and an in-place sum leaves the input alone
    model = nn.ModuleDict({"enter": nn.Linear(4, 4), "blocks": nn.ModuleList([Branch(forward)])})
    (block,) = discover(model, X, call=lambda m, x: m["blocks"][0](m["enter"](x))).blocks
    assert (block.container, block.index, block.residual) == ("blocks", 0, residual)
    if residual:
        assert block.tail == tail
    assert block.axes == ("enter.weight[0]",) if residual else len(block.axes) == 1


def test_the_children_of_a_sequential_model_have_paths_without_a_dot() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    assert discover(model, X).blocks == (
        Block("", 0, ("0.weight[0]",), False, ()),
        Block("", 1, ("0.weight[0]",), False, ()),
    )


def test_a_block_that_runs_twice_is_none() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Branch(FORWARDS["pre-norm"][0]), Branch(FORWARDS["pre-norm"][0])])

        def forward(self, x: Tensor) -> Tensor:
            return self.blocks[1](self.blocks[0](self.blocks[0](x)))

    assert [block.index for block in discover(Twice(), X).blocks] == [1]


def test_inputs_by_keyword_count() -> None:
    class Keywords(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Branch(FORWARDS["pre-norm"][0])])

        def forward(self, x: Tensor) -> Tensor:
            return self.blocks[0](x=x)

    assert [block.residual for block in discover(Keywords(), X).blocks] == [True]
