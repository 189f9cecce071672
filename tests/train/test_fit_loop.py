"""Limits, and going on from a saved state."""

import copy
from typing import Any

import pytest
import torch

from growkit.train import Settings


@pytest.mark.parametrize(
    ("limits", "steps"),
    [({"epochs": 2}, 10), ({"max_steps": 7}, 7), ({"epochs": 1, "max_steps": 7}, 5), ({"epochs": 0}, 0)],
)
def test_the_first_limit_ends_the_run(make_engine: Any, limits: dict[str, int], steps: int) -> None:
    engine = make_engine()
    engine.fit(**limits)
    assert engine.progress.step == steps


def test_fitting_in_parts_equals_fitting_at_once(make_engine: Any) -> None:
    calls: list[int] = []
    parts = make_engine(callbacks=[lambda step: calls.append(step)])
    for max_steps in (2, 3, 7, 7):
        parts.fit(max_steps=max_steps)
    parts.fit(epochs=2)
    whole = make_engine()
    whole.fit(epochs=2)
    assert calls == list(range(10))
    for one, other in zip(parts.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("stop", [0, 2, 4, 5, 9])
def test_the_loops_go_on_from_their_state(make_engine: Any, stop: int) -> None:
    first = make_engine(settings=Settings(accumulate_steps=2))
    first.fit(max_steps=stop)
    saved = copy.deepcopy([first._loop.state_dict(), first.model.state_dict(), first.optimizer.state_dict()])
    second = make_engine(settings=Settings(accumulate_steps=2))
    second._loop.load_state_dict(saved[0])
    second.model.load_state_dict(saved[1])
    second.optimizer.load_state_dict(saved[2])
    for engine in (first, second):
        engine.fit(epochs=2)
    assert second.progress == first.progress
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)
