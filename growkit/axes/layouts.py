"""The layout of one tensor: one expression per dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from growkit.axes import patterns
from growkit.axes.expressions import Expression, Leaf, leaves, rename, size


@dataclass(frozen=True, slots=True)
class Layout:
    """Dimensions of one tensor as axis expressions.

    >>> str(Layout.parse("(heads head_dim):produces stream:consumes"))
    '(heads head_dim):produces stream:consumes'
    """

    dims: tuple[Expression, ...]

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Reads the text form of `growkit.axes.patterns`."""
        return cls(patterns.parse(text))

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Shape of the tensor, given the size of each axis."""
        return tuple(size(dim, sizes) for dim in self.dims)

    def axes(self) -> tuple[str, ...]:
        """Names of the axes that occur, each once, in order of appearance."""
        return tuple(dict.fromkeys(leaf.axis for leaf in self))

    def rename(self, names: Mapping[str, str]) -> Layout:
        """The same layout over other axis names."""
        return Layout(tuple(rename(dim, names) for dim in self.dims))

    def __iter__(self) -> Iterator[Leaf]:
        for dim in self.dims:
            yield from leaves(dim)

    def __str__(self) -> str:
        return patterns.show(self.dims)
