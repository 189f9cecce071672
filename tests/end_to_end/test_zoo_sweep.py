"""Every axis of every model of the zoo grows exactly, or is refused with a reason that the table in the docs lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from growkit.testing.sweep import Sweep, refusals, swept
from growkit.testing.zoo import FOREIGN, ZOO

DOCS = Path(__file__).resolve().parents[2] / "docs" / "zoo.md"


def listed(name: str) -> set[str]:
    """The axes of a model that the docs say are refused."""
    _, _, section = DOCS.read_text().partition(f"\n### {name}\n")
    return set(re.findall(r"^- `(.+?)`", section.partition("\n### ")[0], re.MULTILINE))


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
    assert refusals(sweep, entry).keys() <= listed(name)
