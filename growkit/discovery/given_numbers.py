"""Numbers made of sizes that ops are given: the scale of attention, `x / sqrt(width)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import isclose
from typing import Any

from torch import Tensor

from growkit.axes.node import Dim
from growkit.discovery.size_floats import Powers
from growkit.discovery.taint import SizeOf

Expected = tuple[float, Powers]
"""A number, and what it is made of: origins with exponents. None: the last dim of what such a number multiplies first,
the queries that a function makes itself."""


class GivenNumbers:
    """What was seen of them in one run.

    `found`: what a number is made of and its place, by number of the op and name of the argument.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[int, str], tuple[Powers, str]] = {}
        self._expected: list[Expected] = []
        self._met: set[int] = set()
        self._queries: SizeOf | None = None

    @contextmanager
    def expecting(self, factors: list[Expected], unseen: list[Powers]) -> Iterator[None]:
        """Inside, ops that are given one of these numbers are noted; puts what others were made of into `unseen`."""
        outer, self._expected, self._met, self._queries = (self._expected, self._met), factors, set(), None
        try:
            yield
            unseen += [p for i, (_, p) in enumerate(factors) if i not in self._met and p[0][0] is not None]
        finally:
            self._expected, self._met = outer

    def op(self, number: int, arguments: Mapping[str, Any], where: str, dims: Callable[[Tensor], list[Dim]]) -> None:
        """Sees an op."""
        for name, value in arguments.items() if self._expected else ():
            if type(value) in (int, float):
                for i, (expected, powers) in enumerate(self._expected):
                    if isclose(value, expected, rel_tol=1e-12):
                        self._met.add(i)
                        self.found[number, name] = self._complete(powers, arguments.get("self"), dims), where

    def _complete(self, powers: Powers, operand: Any, dims: Callable[[Tensor], list[Dim]]) -> Powers:
        if self._queries is None and powers[0][0] is None and isinstance(operand, Tensor):
            self._queries = SizeOf(tuple(dims(operand)[-1]))
        return tuple((self._queries if origin is None else origin, power) for origin, power in powers)
