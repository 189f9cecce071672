"""Growth by new units that nothing reads at first."""

from __future__ import annotations

from growkit.axes.expressions import Role
from growkit.maps.axis_map import NEW, AxisMap
from growkit.maps.methods.method import Fill, Method


def appended(old_size: int, new_size: int, key: str = "") -> AxisMap:
    """The old units unchanged, then new ones.

    Law: exact, since what consumes a new unit starts at zero; gradients of the old entries are unchanged,
    so their moments move exactly. New units learn from the second step on: first their readers, then
    they themselves.

    Source: Gesmundo and Maile 2023, Composable Function-preserving Expansions (arXiv 2308.06103),
    section 3.1.
    """
    return AxisMap.copies(old_size, (*range(old_size), *[NEW] * (new_size - old_size)))


METHOD = Method(
    "fresh",
    appended,
    {
        Role.PRODUCES: Fill.RANDOM,
        Role.CONSUMES: Fill.ZERO,
        Role.GAIN: Fill.ONE,
        Role.BIAS: Fill.ZERO,
        Role.READOUT: Fill.ZERO,
        Role.MEAN: Fill.ZERO,
        Role.VARIANCE: Fill.ONE,
    },
)
