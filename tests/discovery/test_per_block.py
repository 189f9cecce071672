"""Lists with an entry for each block, and ints that number blocks."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import growkit as gk
from growkit.axes.axis import Count, Index
from growkit.discovery.discover import discover
from growkit.errors import VerificationError
from tests.growth.nets import Branch, rows

Loop = Callable[[nn.Module, Tensor], Tensor]


def indexed(s: Any, x: Tensor) -> Tensor:
    for i, layer in enumerate(s.layers):
        x = layer(x, s.factors[i])
    return x


def zipped(s: Any, x: Tensor) -> Tensor:
    for layer, factor in zip(s.layers, s.factors, strict=True):
        x = layer(x, factor)
    return x


def sliced(s: Any, x: Tensor) -> Tensor:
    for factor, layer in zip(s.factors[:], s.layers, strict=False):
        x = layer(x, factor)
    return x


def beforehand(s: Any, x: Tensor) -> Tensor:
    """Also looks at all of it: before, to see what there is."""
    assert set(s.factors) == {2.0, 4.0}
    return indexed(s, x)


def elsewhere(s: Any, x: Tensor) -> Tensor:
    """Two factors that have nothing to do with blocks."""
    x = x * s.factors[0] + s.factors[1]
    for layer in s.layers:
        x = layer(x)
    return x


def all_of_it(s: Any, x: Tensor) -> Tensor:
    """Every block takes both factors."""
    for layer in s.layers:
        for factor in s.factors:
            x = layer(x, 1.0) if factor == 2 else factor * x
    return x


class Factored(Branch):
    """x + factor * down(tanh(up(norm(x))))"""

    def forward(self, x: Tensor, factor: float = 1.0) -> Tensor:
        return x + factor * self.down(torch.tanh(self.up(self.norm(x))))


class Stack(nn.Module):
    """Two residual blocks; no width in it is 2."""

    def __init__(self, loop: Loop, factors: Any):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 3)
        self.layers = nn.ModuleList(Factored(4, 5) for _ in range(2))
        self.loop, self.factors = loop, factors

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.loop(self, self.first(x)))


def lists(model: nn.Module) -> list[Count]:
    return [count for count in discover(model, rows()).counts if count.verdict == "list"]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("loop", [indexed, zipped, sliced, beforehand])
def test_a_list_of_which_each_block_takes_its_entry(loop: Loop, kind: type) -> None:
    model = Stack(loop, kind((2.0, 4.0))).double()
    assert lists(model) == [Count("factors", 2, "layers", "list")]
    assert type(model.factors) is kind


@pytest.mark.parametrize("loop", [elsewhere, all_of_it])
def test_a_list_of_the_same_length_for_something_else(loop: Loop) -> None:
    assert lists(Stack(loop, [2.0, 4.0]).double()) == []


@pytest.mark.parametrize(
    ("at", "factors"),
    [([0], (2.0, 2.0, 4.0)), ([1], (2.0, 2.0, 4.0)), ([2], (2.0, 4.0, 4.0)), ([0, 2, 2], (2.0, 2.0, 4.0, 4.0, 4.0))],
)
@pytest.mark.parametrize("kind", [list, tuple])
def test_new_blocks_have_the_entry_of_that_which_they_are_modelled_on(
    kind: type, at: list[int], factors: tuple[float, ...]
) -> None:
    model = Stack(zipped, kind((2.0, 4.0))).double()
    before = model(rows())
    report = gk.grow(model, deepen={"layers": gk.Insert(at=at)}, example_inputs=rows())
    assert model.factors == kind(factors)
    torch.testing.assert_close(model(rows()), before, rtol=0, atol=1e-12)
    replayed = Stack(zipped, kind((2.0, 4.0))).double()
    gk.grow(replayed, gk.Plan.from_json(report.plan.to_json()))
    assert replayed.factors == model.factors


def test_a_list_that_two_modules_keep_is_extended_once() -> None:
    model = nn.Sequential(Stack(indexed, [2.0, 4.0])).double()
    model[0].config = SimpleNamespace(factors=model[0].factors)
    gk.grow(model, deepen={"0.layers": 3}, example_inputs=rows())
    assert model[0].factors is model[0].config.factors
    assert model[0].factors == [2.0, 4.0, 4.0]


def test_a_failure_takes_lists_back() -> None:
    def bound(s: Any, x: Tensor) -> Tensor:
        return zipped(s, x) * len(s.factors)

    model = Stack(bound, [2.0, 4.0]).double()
    with pytest.raises(VerificationError):
        gk.grow(model, deepen={"layers": 3}, example_inputs=rows())
    assert model.factors == [2.0, 4.0]


class Numbered(Branch):
    def __init__(self, **kept: Any):
        super().__init__(4, 5)
        vars(self).update(kept)


def numbered(names: str, blocks: int) -> Any:
    model = Stack(lambda s, x: nn.Sequential(*s.layers)(x), None)
    model.layers = nn.ModuleList(Numbered(**dict.fromkeys(names.split(), i)) for i in range(blocks))
    return model.double()


@pytest.mark.parametrize("name", ["layer_idx", "block_index", "layer_id", "number"])
def test_ints_that_number_blocks(name: str) -> None:
    model = numbered(name, 2)
    assert discover(model, rows()).indices == (Index("layers", 0, name), Index("layers", 1, name))
    gk.grow(model, deepen={"layers": gk.Insert(at=[0, 1])}, example_inputs=rows())
    assert [vars(layer)[name] for layer in model.layers] == [0, 1, 2, 3]


def test_of_few_blocks_only_ints_that_are_called_so_number_them() -> None:
    assert discover(numbered("dilation", 2), rows()).indices == ()
    assert len(discover(numbered("dilation", 3), rows()).indices) == 3
    shifted = numbered("layer_idx", 3)
    shifted.layers[2].layer_idx = 7
    assert discover(shifted, rows()).indices == ()
