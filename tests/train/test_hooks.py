"""Callbacks that only look, and the order of all calls."""

from typing import Any

import pytest
import torch

from growkit.errors import EngineError
from growkit.train import Settings, StepCallbackReturn


class Recorder:
    """Writes down every call, with the epoch and the step that it was told."""

    def __init__(self, grow_at: int | None = None):
        self.calls: list[tuple[Any, ...]] = []
        self.grow_at = grow_at

    def train_epoch_callback(self, epoch, step):
        self.calls.append(("train_epoch_callback", epoch, step))

    def train_step_callback(self, model, epoch, step):
        self.calls.append(("train_step_callback", epoch, step))
        return StepCallbackReturn(updated_model=model) if step == self.grow_at else None

    def on_fit_start(self, epoch, step):
        self.calls.append(("on_fit_start", epoch, step))

    def on_fit_end(self, epoch, step):
        self.calls.append(("on_fit_end", epoch, step))

    def on_epoch_end(self, epoch, step):
        self.calls.append(("on_epoch_end", epoch, step))

    def on_train_step_end(self, epoch, step, batch, metrics):
        self.calls.append(("on_train_step_end", epoch, step, float(batch[0].sum()), metrics.last["loss"]))

    def on_evaluation_end(self, epoch, step, results):
        self.calls.append(("on_evaluation_end", epoch, step, results))

    def on_growth(self, epoch, step, parameters_before, parameters):
        self.calls.append(("on_growth", epoch, step, parameters_before, parameters))


def test_the_call_sequence(make_engine: Any, batches: Any, loss_of: Any) -> None:
    recorder = Recorder(grow_at=1)
    losses: list[float] = []

    def train_step(model, batch, step):
        recorder.calls.append(("train_step", step))
        loss = loss_of(model, batch)
        losses.append(loss.item())
        return loss

    engine = make_engine(
        train_step=train_step,
        train_data=batches[:2],
        callbacks=[recorder],
        eval_step=lambda model, batch: {"one": 1.0},
        eval_data=[0],
        settings=Settings(evaluate_every=2),
    )
    engine.fit(2)
    size = sum(parameter.numel() for parameter in engine.model.parameters())
    sums = [float(batch[0].sum()) for batch in batches[:2]]
    assert recorder.calls == [
        ("on_fit_start", 1, 0),
        ("train_epoch_callback", 1, 0),
        ("train_step_callback", 1, 0),
        ("train_step", 0),
        ("on_train_step_end", 1, 0, sums[0], losses[0]),
        ("train_step_callback", 1, 1),
        ("on_growth", 1, 1, size, size),
        ("train_step", 1),
        ("on_train_step_end", 1, 1, sums[1], losses[1]),
        ("on_epoch_end", 1, 2),
        ("train_epoch_callback", 2, 2),
        ("train_step_callback", 2, 2),
        ("train_step", 2),
        ("on_train_step_end", 2, 2, sums[0], losses[2]),
        ("train_step_callback", 2, 3),
        ("train_step", 3),
        ("on_train_step_end", 2, 3, sums[1], losses[3]),
        ("on_epoch_end", 2, 4),
        ("on_evaluation_end", 2, 4, {"one": 1.0}),
        ("on_fit_end", 3, 4),
    ]


class Looking:
    def __init__(self, look: Any):
        self.on_train_step_end = look


def test_hooks_alone_make_a_callback_and_several_run_in_order(make_engine: Any) -> None:
    seen: list[str] = []
    engine = make_engine(callbacks=[Looking(lambda: seen.append("first")), Looking(lambda: seen.append("second"))])
    engine.fit(max_steps=1)
    assert seen == ["first", "second"]


def test_a_hook_that_changes_something_is_refused(make_engine: Any) -> None:
    with pytest.raises(EngineError, match="the hook on_train_step_end returned StepCallbackReturn"):
        make_engine(callbacks=[Looking(StepCallbackReturn)]).fit(1)

    def replace(model):
        model[0].weight = torch.nn.Parameter(torch.zeros_like(model[0].weight))

    with pytest.raises(EngineError, match=r"changed without saying so: 0\.weight \(replaced\)"):
        make_engine(callbacks=[Looking(replace)]).fit(1)


def test_a_misspelt_hook_is_refused(make_engine: Any) -> None:
    class Misspelt:
        def on_train_step_ends(self): ...

    with pytest.raises(EngineError, match="Misspelt has the method on_train_step_ends"):
        make_engine(callbacks=[Misspelt(), lambda step: None])
