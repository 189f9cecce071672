"""Optimizers and schedulers by name."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

from growkit.errors import EngineError
from growkit.train.optimizers import made_schedulers, named_optimizers, schedulers_by_name


def schedulers_of(given: Any, optimizers: Any) -> Any:
    return made_schedulers(schedulers_by_name(given, optimizers), optimizers)


def sgd(module: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(module.parameters(), lr=0.1)


def test_one_optimizer_is_called_main_and_others_as_given(make_net: Any) -> None:
    net = make_net()
    one, other = sgd(net[0]), sgd(net[2])
    assert named_optimizers(one, net) == {"main": one}
    assert named_optimizers(lambda model: {"low": one, "high": other}, net) == {"low": one, "high": other}


def test_schedulers_go_to_their_optimizers(make_net: Any) -> None:
    net = make_net()
    optimizers: Any = {"low": sgd(net[0]), "high": sgd(net[2])}
    made = StepLR(optimizers["high"], 2)
    assert schedulers_of([made], optimizers) == {"low": (), "high": (made,)}
    by_name = schedulers_of({"low": [lambda optimizer: StepLR(optimizer, 3)]}, optimizers)
    assert by_name["low"][0].optimizer is optimizers["low"]
    assert by_name["high"] == ()


def test_what_belongs_to_no_optimizer_is_refused(make_net: Any) -> None:
    net = make_net()
    optimizers: Any = {"low": sgd(net[0]), "high": sgd(net[2])}
    with pytest.raises(EngineError, match="1 functions as schedulers of 2 optimizers"):
        schedulers_of([lambda optimizer: StepLR(optimizer, 3)], optimizers)
    with pytest.raises(EngineError, match="schedulers of 'lo'"):
        schedulers_of({"lo": []}, optimizers)
    with pytest.raises(EngineError, match="StepLR of another optimizer"):
        schedulers_of({"low": [StepLR(optimizers["high"], 2)]}, optimizers)
    with pytest.raises(EngineError, match="one optimizer under two names"):
        named_optimizers({"a": optimizers["low"], "b": optimizers["low"]}, net)
    with pytest.raises(EngineError, match="optimizers with the names"):
        named_optimizers({}, net)
    with pytest.raises(EngineError, match="optimizers with the names"):
        named_optimizers({"a b": optimizers["low"]}, net)
