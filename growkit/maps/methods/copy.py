"""Growth by copies of old units, which share the weight of what reads them."""

from __future__ import annotations

from growkit.maps.axis_map import AxisMap
from growkit.maps.methods.method import Method


def copies(old_size: int, new_size: int, key: str = "") -> AxisMap:
    """The old units, then copies of them in turn: counts differ by one at most.

    Law: exact wherever units are treated alike, one by one; over a norm that mixes the units only if
    `new_size` is a multiple of `old_size`. Gradients of the copies are 1/count of the unit's, so the
    moments of an optimizer move exactly.

    Source: Chen et al. 2015, Net2Net (arXiv 1511.05641), section 3.1, with balanced instead of random
    choice of the units.
    """
    return AxisMap.copies(old_size, tuple(unit % old_size for unit in range(new_size)))


METHOD = Method("copy", copies, {})
