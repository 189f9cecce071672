"""What a model looks like, to know whether a plan fits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from growkit.axes.table import AxisTable
from growkit.errors import PlanError
from growkit.nn.contents import module_types, tensors_of
from growkit.nn.places import read


@dataclass(frozen=True)
class Fingerprint:
    """What a model must look like for a plan to fit: shapes of its tensors, types of its modules, its numbers."""

    tensors: Mapping[str, tuple[int, ...]]
    modules: Mapping[str, str]
    numbers: Mapping[str, int]
    floats: Mapping[str, float]


def fingerprint_of(table: AxisTable) -> Fingerprint:
    """The fingerprint of the model that an axis table was made of."""
    sizes = table.sizes
    return Fingerprint(
        {name: layout.shape(sizes) for name, layout in table.layouts.items()},
        dict(table.modules),
        {number_key(n.path, n.index): n.value for n in table.numbers}
        | {count.path: count.value for count in table.counts if count.verdict == "count"}
        | {f"{i.container}.{i.index}.{i.attribute}".removeprefix("."): i.index for i in table.indices},
        {c.target: c.value for axis in table for c in axis.corrections if isinstance(c.target, str) and c.value},
    )


def read_number(model: nn.Module, path: str, index: int | None) -> Any:
    """The value of a number of a plan or table, None if the model has no such attribute."""
    try:
        value = read(model, path)
        return value if index is None or value is None else value[index]
    except (LookupError, TypeError):
        return None


def differences(model: nn.Module, expected: Fingerprint) -> list[str]:
    """In what the model is not as a fingerprint describes it; empty if it is."""
    tensors = {name: tuple(t.shape) for name, t in tensors_of(model).items()}
    found_out = [*_differences("tensor", expected.tensors, tensors)]
    found_out += _differences("module", expected.modules, module_types(model))
    for key, value in expected.numbers.items():
        path, _, index = key.partition("#")
        found = read_number(model, path, int(index) if index else None)
        if found != value:
            found_out.append(f"number {key}: the plan says {value}, the model has {found}")
    for path, expected_value in expected.floats.items():
        found = read_number(model, path, None)
        if found != expected_value:
            found_out.append(f"float {path}: the plan says {expected_value}, the model has {found}")
    return found_out


def check_fingerprint(model: nn.Module, expected: Fingerprint) -> None:
    """Passes if the model is as the plan describes it.

    Raises:
        PlanError: with the first differences.
    """
    found = differences(model, expected)
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise PlanError(
            f"a plan for another model: {'; '.join(found[:3])}{more}",
            "the model that the plan was made for, or a fresh one of the same sizes",
            "make the plan anew with make_plan(discover(model, ...)), or build the model as it was before the growth",
        )


def number_key(path: str, index: int | None) -> str:
    """Key of a number in `Fingerprint.numbers`."""
    return path if index is None else f"{path}#{index}"


def _differences(what: str, expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    for name in {**expected, **found}:
        if name not in found:
            yield f"{what} {name!r} is missing"
        elif name not in expected:
            yield f"{what} {name!r} is not in the plan"
        elif expected[name] != found[name]:
            yield f"{what} {name!r}: the plan says {expected[name]}, the model has {found[name]}"
