"""What is known about one axis: values, without tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from growkit.axes.expressions import Expression, Role


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where an axis occurs: leaf number `position` of dimension `dim` of a tensor."""

    tensor: str
    dim: int
    position: int
    factor: int | None
    """Number of the factor in a composite dim, None where the axis is the whole dim."""
    role: Role | None

    def __str__(self) -> str:
        return f"{self.tensor}[{self.dim}]" + ("" if self.factor is None else f".{self.factor}")


@dataclass(frozen=True, slots=True)
class Passage:
    """Something that an activation passes on its way along an axis, such as `layer_norm`."""

    kind: str
    where: str
    """Path of the module, and the op if it is no module's own."""


@dataclass(frozen=True, slots=True)
class Lock:
    """Why an axis cannot grow."""

    reason: str
    where: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Number:
    """A Python int that a module keeps and that must follow the axes.

    `path` is the path of the module and the attribute, `layers.0.attention.num_heads`; `index` the
    place inside a tuple (a `normalized_shape`). All of `sizes` equal the number, before and after
    every growth: axes in different sizes of one number are tied.
    """

    path: str
    index: int | None
    value: int
    sizes: tuple[Expression, ...]
    read: bool
    """Whether the forward pass reads it; the others are bookkeeping that is kept true."""


@dataclass(frozen=True, slots=True)
class Equality:
    """Sizes that must stay equal, such as the two halves of a chunk."""

    sizes: tuple[Expression, ...]
    where: str


@dataclass(frozen=True, slots=True)
class Block:
    """One module of a `ModuleList` or `Sequential` and how its result came about."""

    container: str
    index: int
    axes: tuple[str, ...]
    """Axes of its result that parameters hold (the residual stream)."""
    residual: bool
    """Whether its result is its input plus something, but for what `tail` lists."""
    tail: tuple[str, ...]
    """Paths, inside the block, of modules that the sum passes before it leaves the block, in order."""
    silenced: Mapping[str, float] = field(default_factory=dict)
    """Parameters, relative to the block, that make the sum equal to the input, and the number at which each does: zero,
    or less by what is added to it before it is used, as to a gain of `1 + weight`."""
    obstacle: str = ""
    """Why there are none: what the block adds that no parameter makes zero."""


@dataclass(frozen=True, slots=True)
class Count:
    """An int that equals the number of blocks of a container, of a module around it or of an object in that module.

    `verdict`: "count", the run goes by it; "unused", the run does not; "unclear", neither could be seen; "list", it is
    no int but a list or tuple, with one entry for each block.
    """

    path: str
    value: int
    container: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Index:
    """An int that is the number of a block; `attribute` is its path inside the block."""

    container: str
    index: int
    attribute: str


@dataclass(frozen=True, slots=True)
class Correction:
    """A factor that a parameter or a float takes when an axis grows, so that what depends on the number of units stays.

    With the sums of an `AxisMap`, the factor is (new / old size) ** size * energy ** energy * total ** total.
    """

    target: Occurrence | str | None
    """The axis in a parameter, or the path of a float of a module; None if nothing can take the factor."""
    where: str
    """Where the factor comes from."""
    size: float = 0.0
    energy: float = 0.0
    total: float = 0.0
    value: float | None = None
    """Of a float."""

    def factor(self, size: float, energy: float | None, total: float | None) -> float | None:
        """The factor for sums of a map; None if one that it needs is none."""
        if (self.energy and energy is None) or (self.total and total is None):
            return None
        return size**self.size * (energy or 1.0) ** self.energy * (total or 1.0) ** self.total


@dataclass(frozen=True)
class Axis:
    """Features in a fixed order that grow together."""

    name: str
    size: int
    kind: str
    """stream, hidden, heads, head_dim, channels, vocabulary, input, output, or fixed."""
    occurrences: tuple[Occurrence, ...]
    passages: tuple[Passage, ...] = ()
    locks: tuple[Lock, ...] = ()
    admits: tuple[str, ...] = ()
    """What the axis admits, in words: `multiples of 4 (copy)`."""
    corrections: tuple[Correction, ...] = ()
    silent: tuple[Occurrence, ...] = ()
    """Where new units start at zero: one side of each product of activations that is summed over the axis."""

    @property
    def locked(self) -> bool:
        """Whether anything forbids this axis to grow."""
        return bool(self.locks)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that this axis answers to, attributes excepted."""
        return frozenset({self.name, *(str(o) for o in self.occurrences)})
