"""The ops of a run, and the values that they take and give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Value(NamedTuple):
    """A tensor as one op left it; `number` is -1 before any op wrote it."""

    tensor: int
    number: int


@dataclass(slots=True)
class Op:
    """One op of the run: its arguments by name, with values for tensors, and the tensors that it gave."""

    name: str
    where: str
    arguments: Mapping[str, Any]
    results: tuple[int, ...]
    _values: tuple[Value, ...] | None = None

    def values(self) -> tuple[Value, ...]:
        """Its tensors, also those inside lists."""
        if self._values is None:
            found = []
            for argument in self.arguments.values():
                kind = type(argument)
                if kind is Value:
                    found.append(argument)
                elif kind is list or kind is tuple:
                    found += [x for x in argument if type(x) is Value]
            self._values = tuple(found)
        return self._values


def shift_of(op: Op) -> tuple[Value, float] | None:
    """The operand of an op that adds a number to it, and the number."""
    if op.name != "add" or op.arguments.get("alpha", 1) != 1:
        return None
    first, second = op.arguments["self"], op.arguments["other"]
    if isinstance(first, int | float):
        first, second = second, first
    if isinstance(first, Value) and isinstance(second, int | float) and not isinstance(second, bool):
        return first, float(second)
    return None
