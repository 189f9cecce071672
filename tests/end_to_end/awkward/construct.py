"""What an awkward construct is: a small model, and which of its axes grow and which are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Sizes:
    """Sizes of a construct: input features, two widths, heads, outputs, and those of its data."""

    x: int
    a: int
    b: int
    n: int
    o: int
    batch: int
    time: int

    def data(self, *shape: int, seed: int = 0) -> Tensor:
        """A random tensor in float64."""
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def sequence(self) -> Tensor:
        """`'batch time x'`"""
        return self.data(self.batch, self.time, self.x)

    def tokens(self, vocabulary: int) -> Tensor:
        """`'batch time'`"""
        return torch.randint(0, vocabulary, (self.batch, self.time), generator=torch.Generator().manual_seed(0))


ODD = Sizes(5, 6, 7, 3, 2, 2, 4)
EQUAL = Sizes(4, 4, 4, 4, 4, 4, 4)

Make = Callable[[Sizes], tuple[nn.Module, Any]]


@dataclass(frozen=True)
class Construct:
    """A model with its inputs.

    `grows`: names of axes that grow exactly, alone or with those that they are tied to; `refused`: of axes that do
    not, each with a part of the reason.
    """

    make: Make
    grows: tuple[str, ...]
    refused: Mapping[str, str]


class Family(dict[str, Construct]):
    """Constructs by name."""

    def construct(self, name: str, *grows: str, refused: Mapping[str, str] | None = None) -> Callable[[Make], Make]:
        """Enters what it decorates."""

        def enter(make: Make) -> Make:
            assert name not in self, name
            self[name] = Construct(make, grows, refused or {})
            return make

        return enter
