"""Data that follows settings of the user's own, which callbacks update: exact where a run goes on."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from growkit.train import RESET, Engine, Settings, StepCallbackReturn

SAMPLES = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(12, 2)


def train_data(*, epoch, batch_size, user):
    """Those of the stage, in an order of the epoch: 3 batches in the first stage, 6 in the second."""
    held = SAMPLES[: 6 * user["stage"]]
    return held[torch.randperm(len(held), generator=torch.Generator().manual_seed(epoch))].split(batch_size)


def from_epoch_two(epoch, step, config):
    if epoch == 2 and config.user["stage"] == 1:
        return StepCallbackReturn(config_updates={"stage": 2})


def inside_epoch_one(epoch, step, config):
    if step >= 1 and config.user["stage"] == 1:
        return StepCallbackReturn(config_updates={"stage": 2})


def make_engine(
    seen: list[Any], data: Any, run_dir: Path | None = None, batch_size: int | None = 2, **given: Any
) -> Engine:
    torch.manual_seed(0)

    def train_step(model, batch, epoch):
        seen.append((epoch, batch.tolist()))
        return (model(batch) - 1).square().mean()

    return Engine(
        nn.Linear(2, 1).double(),
        train_step,
        data,
        optimizers=lambda model: torch.optim.Adam(model.parameters()),
        settings=Settings(batch_size=batch_size, user={"stage": 1}),
        run_dir=run_dir,
        **({"console": Console(quiet=True)} | given),
    )


@pytest.mark.parametrize("epochs_callback", [True, False])
@pytest.mark.parametrize("stop_at", range(1, 15))
def test_a_run_goes_on_with_the_data_that_it_had(epochs_callback: bool, stop_at: int, tmp_path: Path) -> None:
    """An update inside an epoch is for the next one: the run that goes on inside of it has the data of its start."""
    callbacks = {"epoch_callbacks": [from_epoch_two]} if epochs_callback else {"callbacks": [inside_epoch_one]}
    whole, parts = [], []
    reference = make_engine(whole, train_data, **callbacks)
    reference.fit(epochs=3)
    assert [epoch for epoch, _ in whole] == [1] * 3 + [2] * 6 + [3] * 6

    first = make_engine(parts, train_data, tmp_path, **callbacks)
    first.fit(max_steps=stop_at)
    first.save_checkpoint()
    resumed = make_engine(parts, train_data, tmp_path, **callbacks)
    resumed.fit(epochs=3, resume="auto")
    assert parts == whole
    assert all(map(torch.equal, resumed.model.parameters(), reference.model.parameters()))


def test_evaluations_get_the_keys_too() -> None:
    asked: list[Any] = []

    def eval_data(user):
        asked.append(user)
        return [SAMPLES]

    engine = make_engine([], train_data, eval_step=lambda model, batch: model(batch).mean(), eval_data=eval_data)
    engine.evaluate()
    assert asked == [{"stage": 1}]


def test_reset_takes_the_replaced_data_back(tmp_path: Path) -> None:
    """A run that goes on while it is replaced is told so, one that goes on behind the reset has nothing to be told."""
    seen: list[Any] = []
    other, told = [SAMPLES[:3]], io.StringIO()

    def callback(epoch):
        return (
            StepCallbackReturn(config_updates={"train_data": {2: other, 3: RESET}[epoch]}) if epoch in (2, 3) else None
        )

    def make() -> Engine:
        data = [SAMPLES[:1], SAMPLES[1:2]]
        return make_engine(seen, data, tmp_path, None, epoch_callbacks=[callback], console=Console(file=told))

    engine = make()
    engine.fit(epochs=4)
    assert [len(batch) for _, batch in seen] == [1, 1, 3, 1, 1, 1, 1]
    engine.save_checkpoint()
    make().fit(epochs=5, resume="auto")
    assert [len(batch) for _, batch in seen[7:]] == [1, 1]
    assert ("replaced its own" in told.getvalue()) is False
    replaced = make()
    replaced.fit(epochs=2)
    make().fit(epochs=2, resume=replaced.save_checkpoint())
    assert "the run had replaced its own by an update" in told.getvalue()
