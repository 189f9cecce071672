"""Tests of the places where modules keep ints."""

from __future__ import annotations

import copy
import enum
import functools
import logging
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from einops.layers.torch import Rearrange
from torch import nn

from growkit.nn.places import change_ints, holders_of, put, read, slot_of

Sizes = namedtuple("Sizes", "wide narrow")  # a library may use these
DOUBLED = {3: 6}


class Kind(enum.Enum):
    """Everybody's: an int in it is no size of a module."""

    THREE = 3


@dataclass(frozen=True)
class Frozen:
    """A config that refuses to be written to."""

    heads: int


class Slotted:
    """Without a `__dict__`."""

    __slots__ = ("heads",)

    def __init__(self, heads: int):
        self.heads = heads


class Heads(nn.Module):
    """A size that a class keeps."""

    heads = 3


def keeping(**kept: Any) -> nn.Module:
    """A model whose submodule `inner` keeps things."""
    model = nn.Module()
    model.inner = nn.Module()
    vars(model.inner).update(kept)
    return model


def multiply(x: int, by: int) -> int:
    return x * by


def closure(heads: int) -> Callable[[int], int]:
    def times(x: int) -> int:
        return x * heads

    return times


def places(model: nn.Module) -> dict[str, int]:
    """The ints of a model by place."""
    found: dict[str, int] = {}

    def note(path: str, index: int | None, value: int) -> int:
        found[path + ("" if index is None else f"[{index}]")] = value
        return value

    change_ints(model, note)
    return found


@pytest.mark.parametrize(
    ("kept", "place"),
    [
        ({"heads": 3}, "inner.heads"),
        ({"shape": (5, 3)}, "inner.shape[1]"),
        ({"shape": [5, 3]}, "inner.shape[1]"),
        ({"shape": torch.Size([5, 3])}, "inner.shape[1]"),
        ({"sizes": Sizes(3, 1)}, "inner.sizes[0]"),
        ({"sizes": {"attention.heads": 3}}, "inner.sizes['attention.heads']"),
        ({"sizes": {1: [{"it's": 3}]}}, """inner.sizes[1][0]["it's"]"""),
        ({"sizes": OrderedDict(heads=3)}, "inner.sizes['heads']"),
        ({"pairs": (("h", 3), ("d", 4))}, "inner.pairs[0][1]"),
        ({"config": SimpleNamespace(inner=SimpleNamespace(heads=3))}, "inner.config.inner.heads"),
        ({"config": Frozen(3)}, "inner.config.heads"),
        ({"config": (Frozen(3),)}, "inner.config[0].heads"),
        ({"config": Slotted(3)}, "inner.config.heads"),
        ({"call": functools.partial(multiply, 3)}, "inner.call.args[0]"),
        ({"call": functools.partial(multiply, by=3)}, "inner.call.keywords['by']"),
        ({"call": functools.partial(closure(3), 4)}, "inner.call.func.__closure__['heads']"),
        ({"call": closure(3)}, "inner.call.__closure__['heads']"),
        ({"call": {"q": closure(3)}}, "inner.call['q'].__closure__['heads']"),
        ({"call": lambda x, heads=3: x * heads}, "inner.call.__defaults__[0]"),
        ({"call": lambda x, *, heads=3: x * heads}, "inner.call.__kwdefaults__['heads']"),
    ],
)
def test_an_int_is_found_read_and_changed(kept: dict[str, Any], place: str) -> None:
    model = keeping(**kept)
    assert places(model)[place] == 3
    assert read(model, place) == 3
    change_ints(model, lambda path, index, value: DOUBLED.get(value, value))
    assert read(model, place) == 6
    put(*slot_of(model, place, 8))
    assert read(model, place) == 8


def test_ints_of_a_class_are_those_that_its_instances_have() -> None:
    class First(nn.Module):
        width, depth, height = 4, 2, 3

    class Second(First):
        width = 8
        depth = None  # type: ignore[assignment]

        @property
        def height(self) -> int:  # type: ignore[override]
            return 5

    model = Second()
    assert places(model) == {"width": 8}
    change_ints(model, lambda path, index, value: 2 * value)
    assert (model.width, model.depth, model.height, Second.width) == (16, None, 5, 8)


def test_functions_go_by_what_is_written() -> None:
    model = keeping(a=closure(3), b=functools.partial(multiply, by=3), c=functools.partial(multiply, 3))
    for place in ("inner.a.__closure__['heads']", "inner.b.keywords['by']", "inner.c.args[0]"):
        put(*slot_of(model, place, 5))
    assert [model.inner.a(2), model.inner.b(2), model.inner.c(2)] == [10, 10, 10]


def test_a_copy_of_the_model_keeps_its_closures() -> None:
    """`deepcopy` leaves functions as they are: a change in place would reach the copy."""
    model = keeping(call=closure(3))
    before = copy.deepcopy(model)
    put(*slot_of(model, "inner.call.__closure__['heads']", 5))
    assert [model.inner.call(2), before.inner.call(2)] == [10, 6]


def test_layers_of_einops() -> None:
    model = nn.Sequential(Rearrange("b t (h d) -> b h t d", h=3))
    found = places(model)
    assert (found["0.axes_lengths['h']"], found["0._axes_lengths[0][1]"]) == (3, 3)
    for place in ("0.axes_lengths['h']", "0._axes_lengths[0][1]"):
        put(*slot_of(model, place, 4))
    assert model(torch.zeros(2, 5, 8)).shape == (2, 4, 5, 2)


def test_the_int_of_a_class_is_written_to_the_one_module() -> None:
    model = nn.Sequential(Heads(), Heads())
    assert places(model) == {"0.heads": 3, "1.heads": 3}
    put(*slot_of(model, "1.heads", 4))
    assert [model[0].heads, model[1].heads, Heads.heads] == [3, 4, 3]


def test_an_object_of_many_modules_has_one_place() -> None:
    config = SimpleNamespace(heads=3)
    model = nn.Sequential(keeping(config=config), keeping(config=config))
    assert places(model) == {"0.inner.config.heads": 3}
    assert [path for path, _ in holders_of(model)] == ["0.inner.config"]


def test_what_is_no_size_of_a_module_is_left_alone() -> None:
    def counting() -> Callable[[], int]:
        count = 3

        def more() -> int:
            nonlocal count
            count += 1
            return count

        return more

    model = keeping(
        flag=True, kind=Kind.THREE, log=logging.getLogger("x"), words={str(i): i for i in range(1000)},
        module_function=multiply, cached=functools.lru_cache(closure(3)), more=counting(), tensor=torch.zeros(3),
    )  # fmt: skip
    assert places(model) == {}


def test_what_holds_itself_is_opened_once() -> None:
    cycle: dict[str, Any] = {"heads": 3}
    cycle["again"] = [cycle]

    def recursive(x: int) -> int:
        return recursive(x - 1) if x else 0

    assert places(keeping(cycle=cycle, call=recursive)) == {"inner.cycle['heads']": 3}


@pytest.mark.parametrize(
    "path", ["inner.gone", "inner.shape[7]", "inner.heads[0]", "inner.call.__closure__['x']", "a[b]"]
)
def test_places_that_are_not_there(path: str) -> None:
    with pytest.raises(LookupError):
        read(keeping(heads=3, shape=(1, 2), call=closure(3)), path)
