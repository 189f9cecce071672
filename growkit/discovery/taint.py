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
from functools import reduce
from typing import Any, Protocol

from torch import nn

from growkit.axes.node import Node
from growkit.discovery.size_floats import Powers, SizeFloat, size_float
from growkit.discovery.square_roots import followed_square_roots
from growkit.nn.places import change_ints


@dataclass(frozen=True, slots=True)
class Attribute:
    """An int that modules keep: its place (see `growkit.nn.places`), or entry `index` of the tuple or list there."""

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
    """A number computed from two others: `sign` is *, +, -, // or %."""

    sign: str
    left: Origin
    right: Origin


Origin = Attribute | SizeOf | Literal | Computed


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left sign right` was asked, with signs as in `operator`: lt, le, gt, ge, eq, ne."""

    sign: str
    left: Origin
    right: Origin
    equal: bool
    """Whether both are the same number now."""


class Listener(Protocol):
    """Hears what happens to sizes apart from arithmetic."""

    def as_number(self, origin: Origin) -> None:
        """A size is used as a number, or leaves what can be followed."""

    def compared(self, comparison: Comparison) -> None:
        """A size is compared."""


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def _as_number(origin: Origin) -> None:
    listener = _listener.get()
    if listener:
        listener.as_number(origin)


def _lost(powers: Powers) -> None:
    for origin, _ in powers:
        _as_number(origin)


def square_root(value: Any) -> Any:
    """The square root of a size, or of a float made of sizes; None for other numbers."""
    if isinstance(value, SizeInt):
        value = value.as_float()
    return value**0.5 if isinstance(value, SizeFloat) else None


def _compared(sign: str, left: SizeInt, right: float) -> None:
    listener = _listener.get()
    if not isinstance(right, int):
        _as_number(left.origin)
    elif listener:
        equal = int.__eq__(left, right) is True
        listener.compared(Comparison(sign, left.origin, origin_of(right), equal))


class SizeInt(int):
    """An int with an origin."""

    origin: Origin
    # Unhashable, so that caches (einops keeps recipes by size) let it pass instead of handing back a plain int.
    __hash__ = None  # type: ignore[assignment]

    def __float__(self) -> float:
        _as_number(self.origin)
        return float(plain(self))

    def __int__(self) -> int:
        _as_number(self.origin)
        return plain(self)

    def __bool__(self) -> bool:
        _compared("ne", self, 0)
        return plain(self) != 0

    def __truediv__(self, other: Any) -> Any:
        return self.as_float() / (other.as_float() if isinstance(other, SizeInt) else other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.as_float()

    def as_float(self) -> SizeFloat:
        """The same size as a float that remembers it."""
        return size_float(float(plain(self)), ((self.origin, 1.0),), _lost)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any, modulo: None = None) -> Any:  # type: ignore[override]
        if type(other) is int and other >= 0:
            return reduce(operator.mul, [self] * other, 1)
        return self.as_float() ** other

    def __rpow__(self, other: Any, modulo: None = None) -> Any:  # type: ignore[override]
        _as_number(self.origin)
        return other ** plain(self)

    def __neg__(self) -> Any:
        return 0 - self

    def __abs__(self) -> Any:
        return self if plain(self) >= 0 else -self

    def __round__(self, digits: Any = None) -> Any:
        return self

    __trunc__ = __floor__ = __ceil__ = __pos__ = __abs__

    def __reduce__(self) -> Any:
        return int, (int(self),)


class HashableSizeInt(SizeInt):
    """For models that use sizes as keys. A lookup compares keys, so that equality of sizes is not followed."""

    __eq__ = int.__eq__
    __ne__ = int.__ne__
    __hash__ = int.__hash__  # type: ignore[assignment]


def tracked(value: int, origin: Origin, kind: type[SizeInt] = SizeInt) -> SizeInt:
    """`value` with an origin."""
    made = kind(value)
    made.origin = origin
    return made


def origin_of(value: int) -> Origin:
    """Where an int came from."""
    return value.origin if isinstance(value, SizeInt) else Literal(int(value))


def as_int(value: Any) -> int:
    """A size as Python's int; of others, such as numpy's, the origin is unknown."""
    return value if isinstance(value, SizeInt) else operator.index(value)


def plain(value: int) -> int:
    """The value without its origin."""
    return int.__add__(value, 0)


def _arithmetic(sign: str, function: Callable[[int, int], int], reflected: bool) -> Callable[[SizeInt, Any], Any]:
    def compute(self: SizeInt, other: Any) -> Any:
        if not isinstance(other, int) or isinstance(other, bool):
            if isinstance(other, float):  # the size enters the computation as a number
                return function(other, self.as_float()) if reflected else function(self.as_float(), other)  # type: ignore[arg-type]
            return NotImplemented
        left, right = (other, self) if reflected else (self, other)
        value = function(plain(left), plain(right))
        return tracked(value, Computed(sign, origin_of(left), origin_of(right)), type(self))

    return compute


def _comparison(name: str) -> Callable[[SizeInt, Any], Any]:
    def compare(self: SizeInt, other: Any) -> Any:
        if isinstance(other, int | float) and not isinstance(other, bool):
            _compared(name, self, other)
        return getattr(int, f"__{name}__")(self, other)

    return compare


def _bitwise(name: str) -> Callable[..., Any]:
    def compute(self: SizeInt, *other: Any) -> Any:
        _as_number(self.origin)
        return getattr(int, name)(self, *other)

    return compute


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(SizeInt, f"__{_name}__", _comparison(_name))
for _name in ("and", "or", "xor", "lshift", "rshift"):
    setattr(SizeInt, f"__{_name}__", _bitwise(f"__{_name}__"))
    setattr(SizeInt, f"__r{_name}__", _bitwise(f"__r{_name}__"))
for _name in ("__invert__", "bit_length", "bit_count"):
    setattr(SizeInt, _name, _bitwise(_name))
for _name, _sign in (("mul", "*"), ("add", "+"), ("sub", "-"), ("floordiv", "//"), ("mod", "%")):
    _function = getattr(operator, _name)
    setattr(SizeInt, f"__{_name}__", _arithmetic(_sign, _function, reflected=False))
    setattr(SizeInt, f"__r{_name}__", _arithmetic(_sign, _function, reflected=True))


@contextmanager
def tainted(model: nn.Module, kind: type[SizeInt], listener: Listener) -> Iterator[dict[Attribute, int]]:
    """Inside, every int that modules keep, directly or not, is tracked; gives their values.

    The caller puts them back (see `untouched`).
    """
    values: dict[Attribute, int] = {}

    def track(path: str, index: int | None, value: int) -> SizeInt:
        attribute = Attribute(path, index)
        values[attribute] = value
        return tracked(value, attribute, kind)

    change_ints(model, track)
    token = _listener.set(listener)
    try:
        with followed_square_roots(square_root):
            yield values
    finally:
        _listener.reset(token)
