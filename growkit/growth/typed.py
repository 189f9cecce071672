"""Values out of parsed JSON, of exactly the types that dataclasses annotate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from growkit.errors import PlanError


def read(kind: Any, value: object, where: str) -> Any:
    """The value as a `kind`: a dataclass, `Mapping[str, X]`, `tuple[X, ...]`, `X | None`, `int` or `str`.

    Args:
        kind: the type.
        value: what `json.loads` gave.
        where: what the value is called in errors, such as `plan`.

    Raises:
        PlanError: some value in it is of another type, or a dataclass has missing or unknown entries.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        found = _expect(dict, value, where)
        if found.keys() != hints.keys():
            raise PlanError(
                f"{where} with the entries {sorted(found)}",
                f"exactly {sorted(hints)}",
                "write the plan with Plan.to_json",
            )
        return kind(**{name: read(hints[name], entry, f"{where}.{name}") for name, entry in found.items()})
    arguments = get_args(kind)
    if isinstance(kind, UnionType):
        return None if value is None else read(next(a for a in arguments if a is not type(None)), value, where)
    if get_origin(kind) is Mapping:
        found = _expect(dict, value, where)
        return {name: read(arguments[1], entry, f"{where}[{name!r}]") for name, entry in found.items()}
    if get_origin(kind) is tuple:
        entries = _expect(list, value, where)
        return tuple(read(arguments[0], entry, f"{where}[{number}]") for number, entry in enumerate(entries))
    return _expect(kind, value, where)


def _expect(kind: type, value: Any, where: str) -> Any:
    # exactly: True is no int
    if type(value) is not kind:
        raise PlanError(
            f"{where} of type {type(value).__name__}", kind.__name__, "write the plan with Plan.to_json, unchanged"
        )
    return value
