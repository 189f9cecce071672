"""What a model of the zoo is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from growkit.growth.rebuild import Factory
from growkit.testing.randomise import randomise

Size = Callable[[int], int]
"""The size that a model takes for a number: the number itself, or 4 for every number."""

EQUAL = 4
"""The size of everything where all sizes are equal."""


@dataclass(frozen=True)
class Entry:
    """A small model of an ordinary kind, with inputs, at odd sizes and with all sizes equal.

    `build(size)` makes the model and its inputs from `size(3)`, `size(5)`, ...
    """

    name: str
    build: Callable[[Size], tuple[nn.Module, Any]]
    unwanted: tuple[str, ...] = ()
    """Names or globs of axes that nobody would want to grow, beside inputs, outputs and what is fixed."""
    layouts: Mapping[str, str] | None = None
    """Layouts to declare, of what only training reads."""
    factory: Factory | None = None
    """What the model grows by if it cannot grow in place: `growkit.grow(..., factory=entry.factory)`."""
    joint: tuple[tuple[str, ...], ...] = ()
    """Names or globs of axes that one size of the factory makes."""

    def make(self, equal_sizes: bool = False, seed: int = 0) -> tuple[nn.Module, Any]:
        """The model in float64 and eval mode, away from its initial values, and inputs that it accepts."""
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            model, inputs = self.build(_equal if equal_sizes else _as_it_is)
        double = tree_map_only(Tensor, lambda x: x.double() if x.is_floating_point() else x, inputs)
        return randomise(model.double().eval(), seed), double


def either(size: Size, odd: int, equal: int) -> int:
    """A number for odd sizes, and another for equal ones where a model does not admit 4 for it."""
    return equal if size(0) == EQUAL else odd


def _as_it_is(number: int) -> int:
    return number


def _equal(number: int) -> int:
    return EQUAL
