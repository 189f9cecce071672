"""What is known about the axes of one model: a value, without tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from growkit.axes.axis import Axis, Block, Count, Equality, Index, Number
from growkit.axes.layouts import Layout
from growkit.axes.names import find
from growkit.axes.show import show_table


@dataclass(frozen=True)
class AxisTable:
    """All axes of a model, and the layouts of its tensors over them.

    Iterable over its axes; `table[name]` finds the axes of a name or glob (see
    `growkit.axes.names`); printing it gives a table for people.
    """

    axes: tuple[Axis, ...]
    layouts: Mapping[str, Layout]
    numbers: tuple[Number, ...] = ()
    equalities: tuple[Equality, ...] = ()
    unreached: tuple[str, ...] = ()
    """Parameters and buffers that the traced run never read."""
    unread: tuple[str, ...] = ()
    """Those of them that are parameters."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Qualified type name of each module, by path."""
    blocks: tuple[Block, ...] = ()
    """Blocks that lie in a container and ran one after the other."""
    counts: tuple[Count, ...] = ()
    indices: tuple[Index, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the run may not have shown."""
    shifts: Mapping[str, float] = field(default_factory=dict)
    """Parameters that are used as a number plus the parameter, and the number."""
    by_name: Mapping[str, Axis] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {axis.name: axis for axis in self.axes})

    @property
    def sizes(self) -> dict[str, int]:
        """Size of each axis by name."""
        return {axis.name: axis.size for axis in self.axes}

    def __iter__(self) -> Iterator[Axis]:
        return iter(self.axes)

    def __len__(self) -> int:
        return len(self.axes)

    def __getitem__(self, name: str) -> tuple[Axis, ...]:
        """The axes that a name, a glob or an attribute stands for (see `growkit.axes.names.find`)."""
        return find(name, self.axes, self.numbers, self.modules)

    def __str__(self) -> str:
        return show_table(self.axes, self.numbers, self.equalities, self.unreached, self.warnings)
