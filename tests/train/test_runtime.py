"""Raw model, wrapped model, optimizer, schedulers."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from growkit.errors import EngineError, SettingsError
from growkit.train.runtime import Runtime
from growkit.train.settings import Settings


class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner
        self.itself = [self]  # a reference cycle, as DistributedDataParallel has them

    def forward(self, *inputs: Any) -> Any:
        return self.inner(*inputs)


def adam(model: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters())


def test_the_model_stays_the_users_and_rebuild_wraps_anew(make_net: Callable[..., nn.Module]) -> None:
    unwrapped, net = [], make_net()
    runtime = Runtime(wrap=Wrapper, unwrap=lambda old: unwrapped.append(type(old)))
    runtime.bind(net, adam)
    assert runtime.wrapped is net
    runtime.rebuild()
    first = weakref.ref(runtime.wrapped)
    assert isinstance(runtime.wrapped, Wrapper)
    assert runtime.wrapped.inner is runtime.model is net
    runtime.rebuild()
    assert first() is None
    assert unwrapped == [Wrapper]


def test_a_wrapper_that_was_dropped_or_knows_other_gradients_is_to_be_made_again(
    make_net: Callable[..., nn.Module],
) -> None:
    runtime = Runtime(wrap=Wrapper)
    runtime.bind(make_net(), adam)
    runtime.rebuild()
    first = runtime.wrapped
    assert runtime.is_wrapped_as_it_is
    assert runtime.wrapped is first
    runtime.drop_wrapper()
    assert not runtime.is_wrapped_as_it_is
    assert runtime.wrapped is runtime.model
    runtime.rebuild()
    assert runtime.is_wrapped_as_it_is
    runtime.model[0].bias.requires_grad_(False)
    assert not runtime.is_wrapped_as_it_is


def test_updates_are_checked_by_the_engine(make_engine: Any) -> None:
    with pytest.raises(EngineError, match="a Runtime without an Engine"):
        Runtime().check_updates({})
    engine = make_engine()
    engine.runtime.check_updates({"learning_rate": 0.5})
    assert engine.settings.learning_rate is None
    with pytest.raises(SettingsError, match="the setting 'lr'"):
        engine.runtime.check_updates({"lr": 0.5})


def test_without_wrap_the_model_itself_is_called(make_net: Callable[..., nn.Module]) -> None:
    runtime, net = Runtime(), make_net()
    runtime.bind(net, adam)
    runtime.rebuild()
    assert runtime.wrapped is net


def test_a_function_makes_the_optimizer_and_one_the_scheduler(make_net: Callable[..., nn.Module]) -> None:
    runtime = Runtime(schedulers=[lambda optimizer: lr_scheduler.StepLR(optimizer, 3)], device="cpu")
    runtime.bind(make_net(), adam)
    assert isinstance(runtime.optimizer, torch.optim.Adam)
    assert runtime.schedulers["main"][0].optimizer is runtime.optimizer
    assert runtime.device == torch.device("cpu")


def test_training_mode_is_entered_and_frozen_parts_are_kept(make_net: Callable[..., nn.Module]) -> None:
    runtime, net = Runtime(), make_net()
    runtime.bind(net, adam)
    net[1].eval()
    runtime.enter_training()
    assert (net.training, net[1].training) == (True, False)
    net.eval()
    runtime.enter_training()
    assert all(module.training for module in net.modules())


def test_all_gradients_are_cleared(make_net: Callable[..., nn.Module]) -> None:
    runtime, net = Runtime(), make_net()
    runtime.bind(net, torch.optim.SGD([net[0].weight], lr=0.1))
    net(torch.zeros(1, 3, dtype=torch.float64)).sum().backward()
    runtime.clear_gradients()
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize(
    ("optimizers", "given"),
    [
        (lambda net: "adam", "a str as the optimizer 'main'"),
        (lambda net: torch.optim.SGD([torch.zeros(1)], lr=0.1), "SGD holds none of the model's parameters"),
        (lambda net: torch.optim.LBFGS(net.parameters()), "LBFGS, whose step needs a closure"),
        (torch.optim.Adam, "the class Adam as optimizers"),
        ("adam", "a str as optimizers"),
    ],
)
def test_a_wrong_optimizer_is_refused(make_net: Callable[..., nn.Module], optimizers: Any, given: str) -> None:
    with pytest.raises(EngineError) as caught:
        Runtime().bind(make_net(), optimizers)
    assert caught.value.given == given


def test_a_wrong_scheduler_is_refused(make_net: Callable[..., nn.Module]) -> None:
    other = lr_scheduler.StepLR(adam(make_net()), 3)
    with pytest.raises(EngineError, match="StepLR of another optimizer"):
        Runtime(schedulers=[other]).bind(make_net(), adam)
    with pytest.raises(EngineError, match="ReduceLROnPlateau as a scheduler"):
        Runtime(schedulers=[lr_scheduler.ReduceLROnPlateau]).bind(make_net(), adam)


def test_averages_of_shards_are_refused(make_engine: Any) -> None:
    with pytest.raises(EngineError, match=r"ema_decay beside Runtime\(shard=") as caught:
        make_engine(runtime=Runtime(shard=lambda model: None), settings=Settings(ema_decay=0.9))
    assert caught.value.next_step == "use DistributedDataParallel"


def test_one_runtime_has_one_model(make_net: Callable[..., nn.Module]) -> None:
    runtime = Runtime()
    with pytest.raises(EngineError, match="a Runtime without a model"):
        _ = runtime.model
    runtime.bind(make_net(), adam)
    assert runtime.parameter_count() == 3 * 5 + 5 + 5 + 1
    with pytest.raises(EngineError, match="a Runtime that has a model"):
        runtime.bind(make_net(), adam)


def test_nothing_may_change_while_a_step_is_under_way(make_engine: Any) -> None:
    runtime = make_engine().runtime
    with pytest.raises(EngineError, match="a change of the model inside a step or an evaluation"), runtime.computing():
        runtime.check_updates({})
    runtime.check_updates({})
