"""Growth by copies of random units, with random shares."""

from __future__ import annotations

import random

from growkit.maps.axis_map import AxisMap
from growkit.maps.methods.method import Method


def random_copies(old_size: int, new_size: int, key: str = "") -> AxisMap:
    """The old units, then copies of units drawn in rounds, each once a round: counts differ by one at most.

    The copies of a unit read out with unequal shares: positive, at least half of an equal share, summing to 1. So the
    copies get unequal gradients and drift apart, where copies with equal shares stay equal for ever.

    Law: exact, and moments move exactly, wherever units are treated one by one; not through statistics over the
    units (a layer norm), whose gradients mix the shares.

    Source: Chen et al. 2015, Net2Net (arXiv 1511.05641), section 3.1 (random choice); unequal shares from Chen et al.
    2021, bert2BERT (arXiv 2110.07143) and Wang et al. 2023, LEMON (arXiv 2310.07999), section 4.
    """
    draw = random.Random(f"net2net/{key}")
    source = list(range(old_size))
    while len(source) < new_size:
        source += draw.sample(range(old_size), min(old_size, new_size - len(source)))
    weights = [0.5 + draw.random() for _ in source]
    totals = [0.0] * old_size
    for unit, weight in zip(source, weights, strict=True):
        totals[unit] += weight
    shares = tuple(weight / totals[unit] for unit, weight in zip(source, weights, strict=True))
    return AxisMap(old_size, tuple(source), (1.0,) * new_size, shares)


METHOD = Method("net2net", random_copies, {})
