"""Callbacks: who is called, with what, and what becomes of it."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError
from growkit.train import Runtime, Settings, StepCallbackReturn


def test_functions_and_objects_are_called_in_order(make_engine: Any) -> None:
    calls: list[str] = []

    class Stage:
        def train_step_callback(self, step):
            calls.append(f"object {step}")

    def whatever(step):
        calls.append(f"function {step}")

    make_engine(callbacks=[whatever, Stage(), whatever]).fit(max_steps=2)
    assert calls == ["function 0", "object 0", "function 0", "function 1", "object 1", "function 1"]


def test_a_callback_gets_everything_that_is_offered(make_engine: Any, service: Any) -> None:
    seen: list[dict[str, Any]] = []
    engine = make_engine(callbacks=[lambda **offered: seen.append(offered)], services={"growth": service})
    engine.fit(max_steps=2)
    assert sorted(seen[1]) == [
        "batch", "config", "epoch", "growth", "metrics", "model",
        "optimizer", "optimizers", "progress", "step", "updates",
    ]  # fmt: skip
    assert seen[1]["model"] is engine.model
    assert seen[1]["optimizer"] is engine.optimizer
    assert seen[1]["growth"] is service
    assert seen[1]["config"] == Settings()
    assert seen[1]["progress"].step == seen[1]["step"] == 1


def test_a_later_callback_sees_the_change_of_an_earlier_one(make_engine: Any) -> None:
    rates = []
    first = lambda step: StepCallbackReturn(config_updates={"learning_rate": 0.5 / (1 + step)})  # noqa: E731
    make_engine(callbacks=[first, lambda config: rates.append(config.learning_rate)]).fit(max_steps=2)
    assert rates == [0.5, 0.25]


def test_a_change_of_a_service_is_made_although_the_return_was_forgotten(make_engine: Any, service: Any) -> None:
    def callback(model, step, growth):
        if step == 2:
            growth.widen(8)
            growth.change = StepCallbackReturn(updated_model=model, config_updates={"learning_rate": 0.5})

    engine = make_engine(callbacks=[callback], services={"growth": service})
    engine.fit(max_steps=4)
    assert engine.model[0].weight.shape == (8, 3)
    assert engine.optimizer.param_groups[0]["lr"] == 0.5
    assert service.change is None


def test_a_change_that_is_returned_too_is_made_once(make_engine: Any, service: Any) -> None:
    wrapped = []

    def callback(model, step, growth):
        if step == 1:
            growth.widen(8)
            growth.change = StepCallbackReturn(updated_model=model)
            return growth.change

    runtime = Runtime(wrap=lambda net: wrapped.append(net) or net)
    engine = make_engine(callbacks=[callback], services={"growth": service}, runtime=runtime)
    engine.fit(max_steps=3)
    assert len(wrapped) == 2  # at the start, and after the change


def test_a_change_that_was_refused_and_forgiven_leaves_the_model_wrapped(make_engine: Any, service: Any) -> None:
    seen = []

    def callback(growth):
        growth.runtime.drop_wrapper()

    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            seen.append(type(self))
            return self.inner(inputs)

    make_engine(callbacks=[callback], services={"growth": service}, runtime=Runtime(wrap=Wrapper)).fit(max_steps=2)
    assert seen == [Wrapper, Wrapper]


def test_a_service_acts_without_any_callback(make_engine: Any, service: Any) -> None:
    engine = make_engine(services={"growth": service})
    service.change = StepCallbackReturn(config_updates={"learning_rate": 0.5})
    engine.fit(max_steps=1)
    assert engine.settings.learning_rate == 0.5
    assert service.calls == ["attach"]


def test_a_model_changed_without_a_word_is_an_error(make_engine: Any, service: Any) -> None:
    engine = make_engine(callbacks=[lambda growth: growth.widen(8)], services={"growth": service})
    with pytest.raises(EngineError, match=r"the model was changed without saying so: 0.weight \(replaced\)"):
        engine.fit(max_steps=1)


def test_an_exception_goes_through_and_nothing_has_moved(make_engine: Any) -> None:
    def callback(step):
        if step == 2:
            raise KeyError("from the callback")

    engine = make_engine(callbacks=[callback])
    with pytest.raises(KeyError, match="from the callback"):
        engine.fit(1)
    assert engine.progress.step == 2


def test_a_model_left_in_eval_mode_trains_again(make_engine: Any, loss_of: Any) -> None:
    training = []

    def train_step(model, batch):
        training.append(model.training)
        return loss_of(model, batch)

    def evaluate(model):
        model.eval()

    make_engine(train_step=train_step, callbacks=[evaluate]).fit(max_steps=2)
    assert training == [True, True]


@pytest.mark.parametrize(
    ("returned", "given"),
    [(nn.Linear(1, 1), "a step callback returned Linear"), (True, "a step callback returned bool")],
)
def test_a_wrong_return_is_refused(make_engine: Any, returned: object, given: str) -> None:
    with pytest.raises(EngineError) as caught:
        make_engine(callbacks=[lambda: returned]).fit(1)
    assert caught.value.given == given


class Stages:
    def train_epoch_callback(self, epoch):
        raise AssertionError("never called")


@pytest.mark.parametrize("callback", [3, dict, Stages])
def test_what_cannot_be_called_is_refused(make_engine: Any, callback: object) -> None:
    with pytest.raises(EngineError, match="as a callback"):
        make_engine(callbacks=[callback])
    with pytest.raises(EngineError, match="as an epoch callback"):
        make_engine(epoch_callbacks=[callback])


def test_a_misspelt_parameter_is_refused_when_the_engine_is_made(make_engine: Any) -> None:
    with pytest.raises(EngineError, match="the step callback '<lambda>' asks for 'setp'") as caught:
        make_engine(callbacks=[lambda setp: None])
    assert caught.value.next_step == "rename the parameter to 'step'"


def test_an_epoch_callback_gets_all_but_the_batch(make_engine: Any, service: Any) -> None:
    seen: list[dict[str, Any]] = []
    engine = make_engine(epoch_callbacks=[lambda **offered: seen.append(offered)], services={"growth": service})
    engine.fit(2)
    assert sorted(seen[1]) == [
        "config", "epoch", "growth", "metrics", "model",
        "optimizer", "optimizers", "progress", "step", "updates",
    ]  # fmt: skip
    assert seen[1]["model"] is engine.model
    assert [(offered["epoch"], offered["step"]) for offered in seen] == [(1, 0), (2, 5)]
    with pytest.raises(EngineError, match="the epoch callback '<lambda>' asks for 'batch'"):
        make_engine(epoch_callbacks=[lambda batch: None])


def test_functions_come_before_the_methods_of_objects(make_engine: Any) -> None:
    calls: list[str] = []

    class Both:
        def train_step_callback(self, step):
            calls.append(f"step {step}")

        def train_epoch_callback(self, epoch):
            calls.append(f"epoch {epoch}")

    class Epochs:
        def train_epoch_callback(self):
            calls.append("again")

    make_engine(callbacks=[Both(), Epochs()], epoch_callbacks=[lambda: calls.append("function")]).fit(max_steps=2)
    assert calls == ["function", "epoch 1", "again", "step 0", "step 1"]


def test_a_wrong_return_of_an_epoch_callback_is_refused(make_engine: Any) -> None:
    with pytest.raises(EngineError) as caught:
        make_engine(epoch_callbacks=[lambda: {"learning_rate": 0.1}]).fit(1)
    assert caught.value.given == "an epoch callback returned dict"


@pytest.mark.report("R148")
def test_the_step_callback_sees_what_the_epoch_callback_changed(make_engine: Any, service: Any) -> None:
    """The change is in force, wrapper and optimizer with it, before the next callback of the point runs."""
    seen = []

    def at_epoch(model, epoch, growth):
        if epoch == 2:
            growth.widen(8)
            return StepCallbackReturn(updated_model=model, config_updates={"learning_rate": 0.5})

    def at_step(model, step, config, optimizer, growth):
        wrapped = growth.runtime.wrapped.inner[0].weight
        held = optimizer.param_groups[0]["params"]
        seen.append((step, len(model[0].weight), len(wrapped), any(p is wrapped for p in held), config.learning_rate))

    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.inner(inputs)

    make_engine(
        callbacks=[at_step], epoch_callbacks=[at_epoch], services={"growth": service}, runtime=Runtime(wrap=Wrapper)
    ).fit(max_steps=6)
    assert seen[4:] == [(4, 5, 5, True, None), (5, 8, 8, True, 0.5)]


def test_no_gradient_is_alive_in_an_epoch_callback(make_engine: Any) -> None:
    alive = []

    def at_epoch(model):
        alive.append(any(parameter.grad is not None for parameter in model.parameters()))

    make_engine(epoch_callbacks=[at_epoch]).fit(2)
    assert alive == [False, False]


def test_gradients_of_a_callback_are_not_used(make_engine: Any, loss_of: Any, batches: Any) -> None:
    def callback(model):
        loss_of(model, batches[0]).backward()

    with_gradients, without = make_engine(callbacks=[callback]), make_engine()
    for engine in (with_gradients, without):
        engine.fit(1)
    for one, other in zip(with_gradients.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(one, other)
