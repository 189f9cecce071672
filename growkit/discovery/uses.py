"""What one run shows of ints: where they were used, and as what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from growkit.axes.node import Dim
from growkit.discovery.taint import Comparison, Origin
from growkit.discovery.trace import Tracer


@dataclass(frozen=True)
class Use:
    """An int from `origin` was the size of `dim`."""

    origin: Origin
    dim: Dim
    where: str


@dataclass
class Uses:
    """All that was seen of ints."""

    sizes: list[Use] = field(default_factory=list)
    equal: list[tuple[list[Dim], str]] = field(default_factory=list)
    """Dims that a call makes equally large, such as the parts of a chunk."""
    numeric: list[tuple[Origin, str]] = field(default_factory=list)
    """Sizes that were used as numbers."""
    unexplained: list[tuple[Origin, str]] = field(default_factory=list)
    """Ints that were given to a function of which it is unknown what it does with them."""

    compared: list[tuple[Comparison, str]] = field(default_factory=list)
    blank: list[tuple[Dim, int, str]] = field(default_factory=list)
    """Bounds of the slices that the present call takes of dims that no parameter holds."""
    bounds: dict[int, list[tuple[Dim, int, str]]] = field(default_factory=dict)
    """The same of earlier calls, by the number of the node of the slice: what is written there may bring an axis."""

    def origins(self) -> list[Origin]:
        """Where the ints came from that were used as sizes or numbers."""
        return [use.origin for use in self.sizes] + [origin for origin, _ in (*self.numeric, *self.unexplained)]


@dataclass(frozen=True)
class Run:
    """The traced run, as readers see it."""

    tracer: Tracer
    uses: Uses

    def dims(self, tensor: Tensor) -> list[Dim]:
        """The dims of a tensor of the run."""
        return self.tracer.dims(tensor)


Pairs = Iterable[tuple[int, Dim]]
Reader = Callable[[Run, Sequence[Any], dict[str, Any], Any], Pairs]
"""From a run, a call and its result, ints and the dims whose sizes they are."""
