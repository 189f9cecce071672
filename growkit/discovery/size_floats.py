"""Floats that were computed from sizes: powers of them, such as the temperature 1 / sqrt(head_dim).

Where one multiplies or divides a tensor, its factor is known at every size (see `growkit.discovery.scaling`). Any other
use of it is a use of the size as a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Powers = tuple[tuple[Any, float], ...]
"""Origins of the sizes, and the power of each."""


class SizeFloat(float):
    """A float that is a constant times powers of sizes."""

    powers: Powers
    lost: Callable[[Powers], None]
    """Hears of uses that are not followed."""

    def __mul__(self, other: Any) -> Any:
        return self._product(other, 1.0, float.__mul__)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._product(other, -1.0, float.__truediv__)

    def __rtruediv__(self, other: Any) -> Any:
        if type(other) in (int, float):
            return size_float(other / float.__add__(self, 0.0), _times(self.powers, -1.0), self.lost)
        return NotImplemented

    def __pow__(self, other: Any, modulo: None = None) -> Any:
        if type(other) in (int, float):
            return size_float(float.__add__(self, 0.0) ** other, _times(self.powers, float(other)), self.lost)
        return self._plain() ** other

    def __neg__(self) -> Any:
        return size_float(-float.__add__(self, 0.0), self.powers, self.lost)

    def __float__(self) -> float:
        return self._plain()

    def _product(self, other: Any, sign: float, function: Callable[[float, float], float]) -> Any:
        value = float.__add__(self, 0.0)
        if isinstance(other, SizeFloat):
            powers = (*self.powers, *_times(other.powers, sign))
            return size_float(function(value, float.__add__(other, 0.0)), powers, self.lost)
        if type(other) in (int, float):
            return size_float(function(value, float(other)), self.powers, self.lost)
        return NotImplemented

    def _plain(self) -> float:
        self.lost(self.powers)
        return float.__add__(self, 0.0)

    def __reduce__(self) -> Any:
        return float, (float.__add__(self, 0.0),)


def size_float(value: float, powers: Powers, lost: Callable[[Powers], None]) -> SizeFloat:
    """A float with the sizes that it was computed from."""
    made = SizeFloat(value)
    made.powers, made.lost = powers, lost
    return made


def plain(value: SizeFloat) -> float:
    """The value without its origin."""
    return float.__add__(value, 0.0)


def _lossy(name: str) -> Callable[..., Any]:
    def compute(self: SizeFloat, *others: Any) -> Any:
        return getattr(float, name)(self._plain(), *others)

    return compute


for _name in (
    "add", "radd", "sub", "rsub", "floordiv", "rfloordiv", "mod", "rmod", "rpow", "lt", "le", "gt", "ge", "eq", "ne",
    "abs", "int", "trunc", "round", "bool",
):  # fmt: skip
    setattr(SizeFloat, f"__{_name}__", _lossy(f"__{_name}__"))
SizeFloat.__hash__ = float.__hash__  # type: ignore[method-assign]


def _times(powers: Powers, by: float) -> Powers:
    return tuple((origin, power * by) for origin, power in powers)
