"""What a growth method is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from growkit.axes.expressions import Role
from growkit.maps.axis_map import AxisMap


class Fill(Enum):
    """What entries of new units start as."""

    ZERO = "zero"
    ONE = "one"
    MEAN = "mean"
    """The mean of the entries of the old units."""
    RANDOM = "random"
    """Drawn at the scale at which such a layer is initialised."""


@dataclass(frozen=True)
class Method:
    """How an axis grows: `make(old_size, new_size, key)` gives the map, `fills` what its new units start as.

    All that is random in the map is drawn from `key`.

    A method whose map has new units keeps the function only if nothing reads them at first: `fills`
    must zero one side of them, and may not zero both (then no gradient ever reaches them).
    """

    name: str
    make: Callable[[int, int, str], AxisMap]
    fills: Mapping[Role, Fill]
