"""Rows of metrics, and what users' functions are offered."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from growkit.errors import EngineError, SettingsError
from growkit.train import Runtime, Settings
from growkit.train.run_state import OFFERED_TO_CALLBACKS, OFFERED_TO_EVAL_STEP, OFFERED_TO_TRAIN_STEP


class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner


def test_what_is_offered_is_what_was_announced(make_engine: Any) -> None:
    engine = make_engine(runtime=Runtime(wrap=Wrapper))
    state = engine._state
    engine.runtime.rebuild()
    state.feed.open(1, None)
    to_callbacks, to_train_step = state.offered_to_callbacks(), state.offered_to_train_step("batch")
    assert set(to_callbacks) == set(OFFERED_TO_CALLBACKS)
    assert set(to_train_step) == set(OFFERED_TO_EVAL_STEP)
    assert set(to_train_step) | {"optimizer", "flow", "data_iter"} == set(OFFERED_TO_TRAIN_STEP)
    assert to_callbacks["model"] is engine.model
    assert to_train_step["model"] is engine.runtime.wrapped is not engine.model


def test_a_row_every_few_steps_and_one_for_the_rest(make_engine: Any, loss_of: Any, tmp_path: Path) -> None:
    losses = []

    def train_step(model, batch, step):
        loss = loss_of(model, batch)
        losses.append(loss.item())
        return {"loss": loss, "index": step}

    engine = make_engine(
        train_step=train_step, settings=Settings(log_every=4, accumulate_steps=2), run_dir=tmp_path / "new" / "run"
    )
    engine.fit(2)
    rows = [json.loads(line) for line in (tmp_path / "new" / "run" / "metrics.jsonl").read_text().splitlines()]
    assert rows == engine.history
    assert [(row["epoch"], row["step"], row["updates"]) for row in rows] == [(1, 4, 2), (2, 8, 4), (2, 10, 6)]
    assert [row["index"] for row in rows] == [3, 7, 9]
    assert [row["index_mean"] for row in rows] == [1.5, 5.5, 8.5]
    assert [row["loss"] for row in rows] == [losses[3], losses[7], losses[9]]
    assert rows[1]["loss_mean"] == pytest.approx(sum(losses[4:8]) / 4, rel=1e-15)
    assert {(row["learning_rate"], row["parameters"]) for row in rows} == {(0.05, 26)}


def test_a_batch_size_that_nothing_takes_is_refused_as_an_update(make_engine: Any) -> None:
    state = make_engine()._state
    with pytest.raises(SettingsError, match="batch_size=4 for train_data that does not take it"):
        state.checked_updates({"batch_size": 4})
    assert state.checked_updates({"log_every": 4}) == (Settings(log_every=4), state.feed.source)
    assert state.settings == Settings()


def test_other_data_is_checked_with_the_batch_size_beside_it(make_engine: Any, batches: Any) -> None:
    def data(batch_size):
        raise AssertionError("only checked")

    state = make_engine()._state
    source = state.feed.source
    assert state.checked_updates({"train_data": batches})[1] is source  # the same object: nothing new
    settings, other = state.checked_updates({"train_data": data, "batch_size": 4})
    assert (settings.batch_size, other.given) == (4, data)
    with pytest.raises(SettingsError, match="no batch_size, and train_data asks for it"):
        state.checked_updates({"train_data": data})
    with pytest.raises(SettingsError, match="batch_size=4 for train_data that does not take it"):
        state.checked_updates({"train_data": [1], "batch_size": 4})
    with pytest.raises(EngineError, match="train_data is a int"):
        state.checked_updates({"train_data": 5})
    assert state.feed.source is source
