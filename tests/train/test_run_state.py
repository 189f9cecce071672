"""Rows of metrics, and what users' functions are offered."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError, SettingsError
from growkit.train import (
    RESET,
    ComputedSetting,
    EpochwiseSetting,
    Runtime,
    Settings,
    StepCallbackReturn,
    StepwiseSetting,
)
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
    in_force, source = state.checked_updates({"log_every": 4})
    assert (in_force.settings, source) == (Settings(log_every=4), state.feed.source)
    assert state.settings == Settings()


def test_other_data_is_checked_with_the_batch_size_beside_it(make_engine: Any, batches: Any) -> None:
    def data(batch_size):
        raise AssertionError("only checked")

    state = make_engine()._state
    source = state.feed.source
    assert state.checked_updates({"train_data": batches})[1] is source  # the same object: nothing new
    in_force, other = state.checked_updates({"train_data": data, "batch_size": 4})
    assert (in_force.settings.batch_size, other.given) == (4, data)
    with pytest.raises(SettingsError, match="no batch_size, and train_data asks for it"):
        state.checked_updates({"train_data": data})
    with pytest.raises(SettingsError, match="batch_size=4 for train_data that does not take it"):
        state.checked_updates({"train_data": [1], "batch_size": 4})
    with pytest.raises(EngineError, match="train_data is a int"):
        state.checked_updates({"train_data": 5})
    assert state.feed.source is source


def test_settings_that_change_by_themselves_are_read_where_a_window_opens(make_engine: Any, loss_of: Any) -> None:
    seen = []

    def train_step(model, batch, step, config):
        rate = engine.optimizer.param_groups[0]["lr"]
        seen.append((step, config.learning_rate, rate, config.accumulate_steps, config.user["noise"]))
        return loss_of(model, batch)

    engine = make_engine(
        train_step=train_step,
        settings=Settings(
            learning_rate=StepwiseSetting({0: 0.1, 3: 0.01}),
            accumulate_steps=EpochwiseSetting({1: 1, 2: 2}),
            user={"noise": ComputedSetting(lambda updates: updates * 10)},
        ),
    )
    engine.fit(max_steps=8)
    assert seen == [
        (0, 0.1, 0.1, 1, 0),
        (1, 0.1, 0.1, 1, 10),
        (2, 0.1, 0.1, 1, 20),
        (3, 0.01, 0.01, 1, 30),
        (4, 0.01, 0.01, 1, 40),
        (5, 0.01, 0.01, 2, 50),
        (6, 0.01, 0.01, 2, 50),
        (7, 0.01, 0.01, 2, 60),
    ]


def test_rates_by_optimizer_updates_of_them_and_back(make_engine: Any, loss_of: Any) -> None:
    def two(model):
        return {name: torch.optim.SGD(model[index].parameters(), lr=0.5) for name, index in (("low", 0), ("high", 2))}

    changes = {1: {"low": 0.3}, 2: {"low": RESET, "high": 0.4}, 3: {"high": RESET}}
    seen = []

    def change(step, optimizers):
        seen.append([optimizers[name].param_groups[0]["lr"] for name in ("low", "high")])
        return StepCallbackReturn(config_updates={"learning_rate": changes[step]}) if step in changes else None

    rates = {"low": 0.1, "high": 0.2}
    engine = make_engine(
        train_step=lambda model, batch, optimizer: loss_of(model, batch),
        optimizers=two,
        settings=Settings(learning_rate=rates),
        callbacks=[change],
    )
    engine.fit(max_steps=5)
    assert seen == [[0.1, 0.2], [0.1, 0.2], [0.3, 0.2], [0.1, 0.4], [0.1, 0.2]]


def test_a_changing_setting_and_an_update_of_it_are_refused(make_engine: Any) -> None:
    def change():
        return StepCallbackReturn(config_updates={"learning_rate": 0.3})

    engine = make_engine(settings=Settings(learning_rate=StepwiseSetting({0: 0.1})), callbacks=[change])
    with pytest.raises(SettingsError, match="beside learning_rate=StepwiseSetting"):
        engine.fit(1)


def test_rows_of_a_run_that_begins_anew_are_set_aside(make_engine: Any, tmp_path: Path) -> None:
    for _ in range(3):
        make_engine(run_dir=tmp_path).fit(max_steps=1, resume="auto")
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["metrics-1.jsonl", "metrics-2.jsonl", "metrics.jsonl"]
    assert {len((tmp_path / name).read_text().splitlines()) for name in files} == {1}


def test_a_run_dir_that_cannot_be_made_is_said_before_work_begins(make_engine: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    engine = make_engine(run_dir=tmp_path / "file" / "run")
    with pytest.raises(EngineError, match=r"run_dir='.*run', which cannot be made: "):
        engine.fit(1)
    assert engine.progress.step == 0
