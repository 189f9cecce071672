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


def test_evaluations_come_after_the_last_batch_of_their_epoch(make_engine: Any, loss_of: Any) -> None:
    calls: list[tuple[str, int, int]] = []

    def train_step(model, batch, epoch, step):
        calls.append(("train", epoch, step))
        return loss_of(model, batch)

    def eval_step(epoch, step):
        calls.append(("evaluate", epoch, step))
        return 0.0

    engine = make_engine(
        train_step=train_step,
        epoch_callbacks=[lambda epoch, step: calls.append(("begin", epoch, step))],
        eval_step=eval_step,
        eval_data=[0],
        settings=Settings(evaluate_every=2),
    )
    for max_steps in (3, 10, 10, 12):
        engine.fit(max_steps=max_steps)
    assert [call for call in calls if call[0] != "train"] == [
        ("begin", 1, 0),
        ("begin", 2, 5),
        ("evaluate", 2, 10),
        ("begin", 3, 10),
    ]
    assert calls.index(("train", 2, 9)) < calls.index(("evaluate", 2, 10)) < calls.index(("train", 3, 10))
