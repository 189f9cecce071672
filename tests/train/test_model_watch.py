"""Changes that nobody announced."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError
from growkit.train.model_watch import ModelWatch
from growkit.train.runtime import Runtime


@pytest.fixture
def runtime(make_net: Callable[..., nn.Module]) -> Runtime:
    runtime = Runtime()
    runtime.bind(make_net(), lambda model: torch.optim.Adam(model.parameters()))
    return runtime


def replace_weight(net: Any) -> None:
    net[0].weight = nn.Parameter(net[0].weight.detach().clone())


def resize_weight(net: Any) -> None:
    net[0].weight.data = torch.zeros(6, 3, dtype=torch.float64)


def reverse(net: Any) -> None:
    net[0]._parameters = dict(reversed(net[0]._parameters.items()))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (replace_weight, r"0.weight \(replaced\)"),
        (resize_weight, r"0.weight \(resized\)"),
        (lambda net: net.append(nn.Linear(1, 1)), r"3.weight \(added\), 3.bias \(added\)"),
        (lambda net: net.__delitem__(2), r"2.weight \(removed\), 2.bias \(removed\)"),
        (reverse, "the order of its parameters"),
    ],
)
def test_a_changed_parameter_is_named(runtime: Runtime, change: Callable[[nn.Module], object], named: str) -> None:
    watch = ModelWatch(runtime)
    watch.check_unchanged()
    change(runtime.model)
    with pytest.raises(EngineError, match=f"the model was changed without saying so: {named}"):
        watch.check_unchanged()
    watch.accept()
    watch.check_unchanged()


def test_new_values_in_the_old_parameters_are_no_change(runtime: Runtime) -> None:
    watch = ModelWatch(runtime)
    with torch.no_grad():
        runtime.model[0].weight.fill_(3)
    watch.check_unchanged()


def test_an_optimizer_that_holds_what_is_gone_is_noticed(runtime: Runtime) -> None:
    watch = ModelWatch(runtime)
    replace_weight(runtime.model)
    with pytest.raises(EngineError, match=r"still holds parameters that the model has no more: 0\.weight"):
        watch.check_followed()


def test_an_optimizer_that_misses_what_is_new_is_noticed(runtime: Runtime) -> None:
    watch = ModelWatch(runtime)
    runtime.model.append(nn.Linear(1, 1))
    with pytest.raises(EngineError, match=r"no optimizer holds the new parameters 3\.weight, 3\.bias"):
        watch.check_followed()


def test_an_optimizer_of_some_parameters_may_leave_new_ones_out(make_net: Callable[..., nn.Module]) -> None:
    runtime = Runtime()
    runtime.bind(make_net(), lambda model: torch.optim.Adam(model[0].parameters()))
    watch = ModelWatch(runtime)
    runtime.model.append(nn.Linear(1, 1))
    watch.check_followed()


def test_the_watch_keeps_no_parameter_alive(make_net: Callable[..., nn.Module]) -> None:
    runtime = Runtime()
    runtime.bind(make_net(), lambda model: torch.optim.Adam(model[2].parameters()))
    watch = ModelWatch(runtime)
    old = weakref.ref(runtime.model[0].weight)
    replace_weight(runtime.model)
    gc.collect()
    assert old() is None
    assert watch.parameter_count == 26
