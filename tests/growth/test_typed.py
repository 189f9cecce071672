"""Types out of JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from growkit.errors import PlanError
from growkit.growth.typed import read


@dataclass(frozen=True)
class Inner:
    names: tuple[str, ...]
    size: int | None


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    shapes: Mapping[str, tuple[int, ...]]


def test_nested_values() -> None:
    value = {"inner": [{"names": ["a", "b"], "size": None}, {"names": [], "size": 3}], "shapes": {"w": [2, 3]}}
    assert read(Outer, value, "it") == Outer((Inner(("a", "b"), None), Inner((), 3)), {"w": (2, 3)})


@pytest.mark.parametrize(
    ("kind", "value", "given", "allowed"),
    [
        (int, True, "it of type bool", "int"),
        (int, 3.0, "it of type float", "int"),
        (int | None, "3", "it of type str", "int"),
        (str, None, "it of type NoneType", "str"),
        (tuple[int, ...], [1, "2"], "it[1] of type str", "int"),
        (tuple[int, ...], "12", "it of type str", "list"),
        (Mapping[str, int], {"a": None}, "it['a'] of type NoneType", "int"),
        (Inner, [], "it of type list", "dict"),
        (Inner, {"names": []}, "it with the entries ['names']", "exactly ['names', 'size']"),
        (Outer, {"inner": [{"names": 3, "size": 3}], "shapes": {}}, "it.inner[0].names of type int", "list"),
    ],
)
def test_another_type_is_refused(kind: Any, value: object, given: str, allowed: str) -> None:
    with pytest.raises(PlanError) as error:
        read(kind, value, "it")
    assert (error.value.given, error.value.allowed) == (given, allowed)
