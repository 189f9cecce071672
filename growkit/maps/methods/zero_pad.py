"""Growth by new units that are zero at first, and read at random."""

from __future__ import annotations

from growkit.axes.expressions import Role
from growkit.maps.axis_map import NEW, AxisMap
from growkit.maps.methods.method import Fill, Method


def padded(old_size: int, new_size: int, key: str = "") -> AxisMap:
    """The old units unchanged, then units that are zero.

    Law: exact, since what is read of a new unit is zero; gradients of the old entries are unchanged, so their moments
    move exactly. New units learn from the first step on. Refused where zero does not stay zero (a sigmoid), and where
    it would stay zero for ever (a ReLU, a gate of two zeros).

    Source: Gesmundo and Maile 2023, Composable Function-preserving Expansions (arXiv 2308.06103), section 3.5.
    """
    return AxisMap.copies(old_size, (*range(old_size), *[NEW] * (new_size - old_size)), padded=True)


METHOD = Method(
    "zero_pad",
    padded,
    {
        Role.PRODUCES: Fill.ZERO,
        Role.CONSUMES: Fill.RANDOM,
        Role.GAIN: Fill.ONE,
        Role.BIAS: Fill.ZERO,
        Role.READOUT: Fill.ONE,
        Role.MEAN: Fill.ZERO,
        Role.VARIANCE: Fill.ONE,
    },
)
