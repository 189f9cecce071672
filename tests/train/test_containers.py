"""Opening containers and putting them together again."""

from collections import OrderedDict, UserDict, deque, namedtuple
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
import torch

from growkit.train.containers import children, holds, rebuilt

Pair = namedtuple("Pair", "left right")


class Keyed(UserDict):  # type: ignore[type-arg]
    """As tokenizers return: a mapping with attributes of its own."""

    note = "kept"


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any
    y: Any


@dataclass
class Counted:
    x: Any
    made: int = field(init=False)
    late: Any = field(init=False)

    def __post_init__(self) -> None:
        self.made = 1


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"a": 1, 2: 3}, ["a", "2"]),
        ([1, 2], ["0", "1"]),
        ((), []),
        (Pair(1, 2), ["left", "right"]),
        (Frozen(1, 2), ["x", "y"]),
        (Counted(5), ["x", "made"]),
        (OrderedDict(b=1, a=2), ["b", "a"]),
        (Keyed(a=1), ["a"]),
        (MappingProxyType({"a": 1}), ["a"]),
    ],
)
def test_containers_are_opened_and_put_together(value: Any, names: list[str]) -> None:
    opened = children(value)
    assert opened is not None
    assert [name for name, _ in opened] == names
    assert rebuilt(value, [item for _, item in opened]) is value
    new = [object() for _ in opened]
    made = rebuilt(value, new)
    assert [item for _, item in children(made) or ()] == new
    if not isinstance(value, MappingProxyType):
        assert type(made) is type(value)
    assert children(value) == opened, "the container given is left as it is"


@pytest.mark.parametrize("value", ["text", 3, None, torch.zeros(2), Frozen, {1, 2}, deque([1])])
def test_anything_else_is_no_container(value: object) -> None:
    assert children(value) is None


def test_init_of_a_dataclass_is_not_run_again() -> None:
    given = Counted(1)
    given.made = 7
    assert rebuilt(given, [2, 8]).made == 8
    assert given.made == 7


@pytest.mark.parametrize(
    "hide",
    [lambda t: t, lambda t: [{"a": (t,)}], lambda t: deque([t]), lambda t: {t}, lambda t: Frozen(1, [t])],
)
def test_what_is_inside_is_found(hide: Any) -> None:
    assert holds(hide(torch.zeros(1)), (torch.Tensor,))
    assert not holds(hide("text"), (torch.Tensor,))


def test_what_refers_to_itself_is_looked_through_once() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert not holds(loop, (torch.Tensor,))
    assert not holds(test_what_is_inside_is_found, (torch.Tensor,))
