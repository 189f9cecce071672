"""The order of calls, written out by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import StepLR

from growkit.train import Progress, Runtime, Settings, StepCallbackReturn


def test_the_call_sequence_of_a_fresh_start(make_engine: Any, loss_of: Any) -> None:
    """Accumulation over 2 of 5 batches: windows of 2, 2 and 1 in each of two epochs."""
    calls: list[tuple[Any, ...]] = []

    def callback(epoch, step, updates):
        calls.append(("callback", epoch, step, updates))

    def train_step(model, batch, epoch, step, updates):
        calls.append(("train_step", epoch, step, updates))
        return loss_of(model, batch)

    engine = make_engine(train_step=train_step, callbacks=[callback], settings=Settings(accumulate_steps=2))
    engine.fit(2)
    assert calls == [
        ("callback", 1, 0, 0),
        ("train_step", 1, 0, 0),
        ("train_step", 1, 1, 0),
        ("callback", 1, 2, 1),
        ("train_step", 1, 2, 1),
        ("train_step", 1, 3, 1),
        ("callback", 1, 4, 2),
        ("train_step", 1, 4, 2),
        ("callback", 2, 5, 3),
        ("train_step", 2, 5, 3),
        ("train_step", 2, 6, 3),
        ("callback", 2, 7, 4),
        ("train_step", 2, 7, 4),
        ("train_step", 2, 8, 4),
        ("callback", 2, 9, 5),
        ("train_step", 2, 9, 5),
    ]
    assert engine.progress == Progress(epoch=3, batch=0, step=10, updates_of={"main": 6})


@pytest.mark.report("R146")
def test_an_epoch_begins_once_however_the_run_is_cut(make_engine: Any) -> None:
    """Cut within an epoch, at its end, by an error of its first step, and resumed from a saved state."""
    calls: list[tuple[str, int]] = []
    fail = [True]

    def at_step(step):
        if step == 10 and fail:
            fail.clear()
            raise KeyError("cut")
        calls.append(("step", step))

    given = {"callbacks": [at_step], "epoch_callbacks": [lambda epoch: calls.append(("epoch", epoch))]}
    first = make_engine(**given)
    first.fit(max_steps=2)
    first.fit(max_steps=5)
    first.fit(epochs=1)
    first.fit(epochs=2)
    with pytest.raises(KeyError):
        first.fit(epochs=3)
    first.fit(max_steps=12)
    second = make_engine(**given)
    second._loop.load_state_dict(first._loop.state_dict())
    second.fit(epochs=3)
    expected: list[tuple[str, int]] = []
    for epoch in (1, 2, 3):
        expected += [("epoch", epoch)] + [("step", step) for step in range(5 * epoch - 5, 5 * epoch)]
    assert calls == expected


def test_an_epoch_whose_callbacks_stopped_the_run_does_not_begin_again(make_engine: Any, tmp_path: Path) -> None:
    begun: list[int] = []

    def begin(epoch):
        begun.append(epoch)
        if len(begun) == 2:
            first.stop()

    first, second = (make_engine(epoch_callbacks=[begin], run_dir=tmp_path) for _ in range(2))
    first.fit(3, resume="auto")
    assert first.progress == Progress(epoch=2, step=5, updates_of={"main": 5})
    second.fit(3, resume="auto")
    assert begun == [1, 2, 3]


def test_no_gradient_is_alive_in_a_callback(make_engine: Any) -> None:
    alive = []

    def callback(model):
        alive.append(any(parameter.grad is not None for parameter in model.parameters()))

    make_engine(callbacks=[callback], settings=Settings(accumulate_steps=2)).fit(1)
    assert alive == [False] * 3


def test_the_callback_sees_the_batch_that_runs_next(make_engine: Any, batches: Any) -> None:
    seen = []
    make_engine(callbacks=[lambda batch: seen.append(batch)], settings=Settings(accumulate_steps=2)).fit(1)
    assert [id(batch) for batch in seen] == [id(batches[index]) for index in (0, 2, 4)]


def test_an_update_of_accumulate_steps_acts_on_the_window_about_to_open(make_engine: Any) -> None:
    starts = []

    def callback(step):
        starts.append(step)
        if step == 1:
            return StepCallbackReturn(config_updates={"accumulate_steps": 3})

    engine = make_engine(callbacks=[callback])
    engine.fit(1)
    assert starts == [0, 1, 4]
    assert engine.progress.updates == 3


def test_a_step_limit_closes_the_window_with_the_batches_it_has(make_engine: Any) -> None:
    engine = make_engine(settings=Settings(accumulate_steps=4))
    engine.fit(max_steps=7)
    assert engine.progress == Progress(epoch=2, batch=2, step=7, updates_of={"main": 3})
    assert all(torch.isfinite(parameter).all() for parameter in engine.model.parameters())


@pytest.mark.report("R140")
def test_a_tail_window_steps_and_schedulers_count_updates(make_engine: Any, batches: Any) -> None:
    """3 batches, accumulation over 4."""
    runtime = Runtime(schedulers=[lambda optimizer: StepLR(optimizer, 1, gamma=0.5)])
    engine = make_engine(train_data=batches[:3], settings=Settings(accumulate_steps=4), runtime=runtime)
    before = [parameter.detach().clone() for parameter in engine.model.parameters()]
    engine.fit(2)
    assert engine.progress.updates == 2
    assert engine.optimizer.param_groups[0]["lr"] == 0.05 * 0.5**2
    assert not any(torch.equal(p, old) for p, old in zip(engine.model.parameters(), before, strict=True))


def test_after_an_exception_inside_a_window_no_batch_is_lost(
    make_net: Any, make_engine: Any, batches: Any, loss_of: Any
) -> None:
    """The second fit goes on with the batch that failed, and with the gradients of the window so far."""
    failures = [RuntimeError("interrupted")]

    def train_step(model, batch, step):
        if step == 1 and failures:
            raise failures.pop()
        return loss_of(model, batch)

    interrupted, whole = (make_engine(train_step=train_step, settings=Settings(accumulate_steps=3)) for _ in range(2))
    with pytest.raises(RuntimeError, match="interrupted"):
        interrupted.fit(1)
    assert interrupted.progress == Progress(batch=1, step=1, micro=1, window=3, partial=True)
    interrupted.fit(1)
    whole.fit(1)
    for one, other in zip(interrupted.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert interrupted.history == whole.history
