"""Growth by copies whose squares sum to the square of their unit."""

from __future__ import annotations

from collections import Counter
from math import sqrt

from growkit.maps.axis_map import AxisMap
from growkit.maps.methods.method import Method


def weighted(old_size: int, new_size: int, key: str = "") -> AxisMap:
    """The old units, then copies of them in turn, each scaled by 1 / sqrt(number of copies).

    Law: the length of every activation stays, so an RMS norm passes at any size, with sqrt(n / n') for its gain and
    n / n' for its eps. Expand and contract are equal, so gradients move as values do, and moments exactly.

    Source: the orthogonal expansion of Wang et al. 2023, LEMON (arXiv 2310.07999), section 4.1, with equal weights.
    """
    source = tuple(unit % old_size for unit in range(new_size))
    counts = Counter(source)
    scales = tuple(1 / sqrt(counts[unit]) for unit in source)
    return AxisMap(old_size, source, scales, scales)


METHOD = Method("isometric", weighted, {})
