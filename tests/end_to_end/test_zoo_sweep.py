"""Every axis of every model of the zoo grows exactly, or is refused with a reason."""

from __future__ import annotations

import pytest

from growkit.testing.sweep import Sweep, swept
from growkit.testing.zoo import FOREIGN, ZOO


@pytest.mark.parametrize("name", ZOO)
def test_as_much_as_can_grow_together(name: str) -> None:
    sweep = Sweep(*ZOO[name].make())
    attempt = sweep.together({"stream": 2.0, "heads": 2.0}, 1.5)
    assert attempt is not None
    assert attempt.outcome == "exact", attempt.reason


@pytest.mark.slow
@pytest.mark.parametrize("equal_sizes", [False, True], ids=["odd sizes", "equal sizes"])
@pytest.mark.parametrize("name", [*ZOO, *FOREIGN])
def test_every_axis_grows_exactly_or_is_refused_with_a_reason(name: str, equal_sizes: bool) -> None:
    entry = ZOO[name] if name in ZOO else FOREIGN[name]
    sweep = swept(entry, equal_sizes)
    assert not sweep.of("wrong"), sweep.of("wrong")
    assert sweep.of("exact")
    assert all(attempt.reason for attempt in sweep.of("refused"))
    assert all(lock.reason and lock.next_step for axis in sweep.table for lock in axis.locks)
