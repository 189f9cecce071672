"""The models of the zoo grow exactly along all that their axes admit."""

from __future__ import annotations

import pytest

from growkit.testing.zoo import ZOO
from tests.end_to_end.sweeps import Sweep

EXACT = 1e-12

NEVER = {
    # the width of values is tied by `head_dim` to that of queries and keys, which is locked
    name: {"blocks.0.attention.qkv.weight[0].5", "blocks.1.attention.qkv.weight[0].5"}
    for name in ("decoder", "tied decoder", "tied decoder, RMS norm", "tied decoder without a final norm")
}
"""Axes that are not locked, and that yet no growth reaches."""


@pytest.mark.parametrize("name", ZOO)
def test_as_much_as_can_grow_together(name: str) -> None:
    sweep = Sweep(*ZOO[name].make())
    sweep.all_at_once()
    assert sweep.exact == 1
    assert sweep.worst <= EXACT
    assert sweep.grown >= set(sweep.unlocked) - NEVER.get(name, set())


@pytest.mark.slow
@pytest.mark.parametrize("equal_sizes", [False, True], ids=["odd sizes", "equal sizes"])
@pytest.mark.parametrize("name", ZOO)
def test_every_axis_by_every_method(name: str, equal_sizes: bool) -> None:
    sweep = Sweep(*ZOO[name].make(equal_sizes))
    sweep.every_axis()
    assert sweep.worst <= EXACT
    assert set(sweep.unlocked) - sweep.grown == NEVER.get(name, set())
    assert sweep.refused.keys() <= {"SizeError", "TieError"}
    print(f"{name}: {sweep.exact} exact, {dict(sweep.refused)} refused, worst {sweep.worst:.1e}")
