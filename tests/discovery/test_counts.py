"""Ints that count blocks: found by trying, or declared."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from growkit.axes.axis import Count, Index
from growkit.discovery.counts import is_count
from growkit.discovery.discover import discover
from growkit.errors import LayoutError
from tests.growth.nets import Branch, rows

Loop = Callable[[nn.Module, Tensor], Tensor]


def indexed(s: nn.Module, x: Tensor) -> Tensor:
    for i in range(s.num_layers):
        x = s.layers[i](x)
    return x


def sliced(s: nn.Module, x: Tensor) -> Tensor:
    for layer in s.layers[: s.num_layers]:
        x = layer(x)
    return x


def backwards(s: nn.Module, x: Tensor) -> Tensor:
    for i in range(s.num_layers - 1, -1, -1):
        x = s.layers[i](x)
    return x


def plain(s: nn.Module, x: Tensor) -> Tensor:
    for layer in s.layers:
        x = layer(x)
    return x


def scaled(s: nn.Module, x: Tensor) -> Tensor:
    return indexed(s, x) / s.num_layers


def scaled_only(s: nn.Module, x: Tensor) -> Tensor:
    return plain(s, x) / s.num_layers


def checked(s: nn.Module, x: Tensor) -> Tensor:
    if len(s.layers) != s.num_layers:
        raise RuntimeError("as many layers as were asked for")
    return plain(s, x)


def by_config(s: nn.Module, x: Tensor) -> Tensor:
    for layer in s.layers[: s.config.depth]:
        x = layer(x)
    return x


class Stack(nn.Module):
    """Two residual blocks; no width in it is 2."""

    def __init__(self, loop: Loop, **kept: Any):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 3)
        self.layers = nn.ModuleList(Branch(4, 5) for _ in range(2))
        self.loop = loop
        vars(self).update(kept)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.loop(self, self.first(x)))


@pytest.mark.parametrize(
    ("loop", "verdict"),
    [
        (indexed, "count"),
        (sliced, "count"),
        (plain, "unused"),
        (scaled_only, "unused"),
        (scaled, "unclear"),
        (checked, "unclear"),
    ],
)
def test_what_a_count_does_is_found_by_trying(loop: Loop, verdict: str) -> None:
    model = Stack(loop, num_layers=2).double()
    assert discover(model, rows()).counts == (Count("num_layers", 2, "layers", verdict),)
    assert model.num_layers == 2
    assert type(model.num_layers) is int


def test_only_ints_that_equal_the_length_are_tried() -> None:
    assert discover(Stack(plain, other=3, flag=True, name="2").double(), rows()).counts == ()


def test_a_loop_from_the_end_goes_by_the_count_as_well() -> None:
    """One less: the last block is gone, as in a loop from the start."""
    assert [c.verdict for c in discover(Stack(backwards, num_layers=2).double(), rows()).counts] == ["count"]


def test_counts_in_a_config_and_further_out() -> None:
    config = SimpleNamespace(depth=2, heads=2)
    model = nn.Sequential(nn.Linear(3, 3), Stack(by_config, config=config)).double()
    assert {(c.path, c.verdict) for c in discover(model, rows()).counts} == {
        ("1.config.depth", "count"),
        ("1.config.heads", "unused"),
    }
    assert config == SimpleNamespace(depth=2, heads=2)


def test_one_int_for_two_containers_is_unclear() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.depth, self.first = 2, nn.Linear(3, 4)
            self.one, self.two = (nn.ModuleList(Branch(4, 5) for _ in range(2)) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            for blocks in (self.one, self.two):
                for i in range(self.depth):
                    x = blocks[i](x)
            return x

    counts = discover(Two().double(), rows()).counts
    assert {(c.container, c.verdict) for c in counts} == {("one", "unclear"), ("two", "unclear")}


class Declared(Stack):
    growkit_sizes: ClassVar[dict[str, str]] = {"num_layers": "len(layers)"}


def test_a_declared_count_is_not_tried() -> None:
    assert discover(Declared(checked, num_layers=2).double(), rows()).counts == (
        Count("num_layers", 2, "layers", "count"),
    )
    with pytest.raises(LayoutError, match=r"num_layers = 3 is len\(layers\), which is 2"):
        discover(Declared(plain, num_layers=3).double(), rows())


def test_a_declared_property_stays_true_by_itself() -> None:
    class Property(Stack):
        growkit_sizes: ClassVar[dict[str, str]] = {"num_layers": "len(layers)"}
        num_layers = property(lambda self: len(self.layers))

    assert discover(Property(indexed).double(), rows()).counts == ()


class Inner(nn.Linear):
    growkit_sizes: ClassVar[dict[str, str]] = {"layer_idx": "index"}


def numbered(first: int = 0) -> Stack:
    model = Stack(plain)
    for number, layer in enumerate(model.layers):
        layer.up = Inner(4, 5)
        layer.up.layer_idx = first + number
    return model.double()


def test_declared_numbers_of_blocks() -> None:
    assert discover(numbered(), rows()).indices == (
        Index("layers", 0, "up.layer_idx"),
        Index("layers", 1, "up.layer_idx"),
    )
    with pytest.raises(LayoutError, match="layer_idx = 1 is the number of its block, which is 0"):
        discover(numbered(1), rows())
    outside = nn.Linear(3, 3)
    outside.__class__, outside.layer_idx = Inner, 0
    with pytest.raises(LayoutError, match="which is no block"):
        discover(outside, torch.randn(2, 3))


def test_entries_that_speak_of_blocks() -> None:
    assert [is_count(text) for text in ("index", "len(layers)", "len(a.b)", "len()", "weight[0]", "a.len(b)")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip
