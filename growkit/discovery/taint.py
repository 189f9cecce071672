"""Ints that remember which attribute, or which dimension, they came from.

During the traced run every int that a module keeps is a `SizeInt`; so is every size that is read from a
tensor. Where one is used as a size, the axes of that dimension are known, and both are noted together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from growkit.axes.node import Node


@dataclass(frozen=True, slots=True)
class Attribute:
    """An int of a module, or entry `index` of a tuple of ints."""

    path: str
    index: int | None


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The size of a dimension."""

    dim: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A number from the source text, or one whose origin is unknown."""

    value: int


@dataclass(frozen=True, slots=True)
class Computed:
    """A number computed from two others: `sign` is *, +, - or //."""

    sign: str
    left: Origin
    right: Origin


Origin = Attribute | SizeOf | Literal | Computed

_as_float: ContextVar[Callable[[Origin], None] | None] = ContextVar("as_float", default=None)
"""Called when a size is used as a floating-point number."""


class SizeInt(int):
    """An int with an origin."""

    origin: Origin
    # Unhashable, so that caches (einops keeps recipes by size) let it pass instead of handing back a plain int.
    __hash__ = None  # type: ignore[assignment]

    def __float__(self) -> float:
        listener = _as_float.get()
        if listener:
            listener(self.origin)
        return float(int(self))

    def __truediv__(self, other: Any) -> Any:
        return float(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / float(self)

    def __pow__(self, other: Any, modulo: None = None) -> Any:  # type: ignore[override]
        return float(self) ** other if isinstance(other, float) or other < 0 else int(self) ** other

    def __neg__(self) -> Any:
        return 0 - self

    def __reduce__(self) -> Any:
        return int, (int(self),)


class HashableSizeInt(SizeInt):
    """For models that use sizes as keys."""

    __hash__ = int.__hash__  # type: ignore[assignment]


def tracked(value: int, origin: Origin, kind: type[SizeInt] = SizeInt) -> SizeInt:
    """`value` with an origin."""
    made = kind(value)
    made.origin = origin
    return made


def origin_of(value: int) -> Origin:
    """Where an int came from."""
    return value.origin if isinstance(value, SizeInt) else Literal(int(value))


def _arithmetic(sign: str, function: Callable[[int, int], int], reflected: bool) -> Callable[[SizeInt, Any], Any]:
    def compute(self: SizeInt, other: Any) -> Any:
        if not isinstance(other, int) or isinstance(other, bool):
            if isinstance(other, float):  # the size enters the computation as a number
                return function(other, float(self)) if reflected else function(float(self), other)  # type: ignore[arg-type]
            return NotImplemented
        left, right = (other, self) if reflected else (self, other)
        value = function(int(left), int(right))
        return tracked(value, Computed(sign, origin_of(left), origin_of(right)), type(self))

    return compute


for _name, _sign in (("mul", "*"), ("add", "+"), ("sub", "-"), ("floordiv", "//")):
    _function = getattr(operator, _name)
    setattr(SizeInt, f"__{_name}__", _arithmetic(_sign, _function, reflected=False))
    setattr(SizeInt, f"__r{_name}__", _arithmetic(_sign, _function, reflected=True))


@contextmanager
def tainted(
    model: nn.Module, kind: type[SizeInt], as_float: Callable[[Origin], None]
) -> Iterator[dict[Attribute, int]]:
    """Inside, every int and tuple of ints that a module keeps is tracked; gives their values.

    The caller puts the attributes back (see `untouched`).
    """
    values: dict[Attribute, int] = {}

    def track(path: str, index: int | None, value: int) -> SizeInt:
        attribute = Attribute(path, index)
        values[attribute] = int(value)
        return tracked(value, attribute, kind)

    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):  # its attributes are not Python's
            continue
        attributes = vars(module)
        for name, value in list(attributes.items()):
            place = f"{path}.{name}" if path else name
            if type(value) is int:
                attributes[name] = track(place, None, value)
            elif type(value) is tuple and value and all(type(entry) is int for entry in value):
                attributes[name] = tuple(track(place, i, entry) for i, entry in enumerate(value))
    token = _as_float.set(as_float)
    try:
        yield values
    finally:
        _as_float.reset(token)
