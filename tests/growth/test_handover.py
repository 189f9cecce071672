"""Optimizers and followers of a model that is rebuilt."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.swa_utils import AveragedModel

from growkit import grow
from growkit.errors import PlanError
from growkit.testing import assert_function_preserved
from tests.growth.keeping import WIDEN, Keeps, build, keeps
from tests.growth.nets import plain, rows, train


def _state(optimizer: torch.optim.Optimizer) -> Any:
    state = optimizer.state_dict()
    return plain(sorted(state["state"].items())), plain(state["param_groups"])


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_optimizer_state_moves_as_in_a_growth_in_place(kind: type) -> None:
    """The twin has no references of its own, so it can grow in place."""

    class Plain(Keeps):
        def forward(self, x: Tensor) -> Tensor:
            return self.down(torch.tanh(self.up(self.first(x))) * self.scale)

    given = {"lr": 0.05, "weight_decay": 0.1} | ({"momentum": 0.9} if kind is SGD else {})
    model, twin = keeps(), Plain().double()
    twin.load_state_dict(model.state_dict())
    plans, trained = [], []
    for net, factory in ((model, build), (twin, None)):
        groups = [{"params": [net.down.weight, net.up.weight]}, {"params": [net.first.weight], "lr": 0.01}]
        optimizer = kind(groups, **given)
        train(net, optimizer)
        net.down.eval()
        net.first.bias.requires_grad_(False)
        report = grow(net, widen=WIDEN, example_inputs=rows(), optimizers=optimizer, factory=factory)
        plans.append(report.plan.width)
        assert [[t.shape for t in g["params"]] for g in optimizer.param_groups] == [[(2, 7), (7, 8)], [(8, 3)]]
        assert optimizer.param_groups[1]["params"][0] is report.model.first.weight
        assert len(optimizer.state) == 3
        assert not report.model.down.training
        assert report.model.up.training
        assert not report.model.first.bias.requires_grad
        train(report.model, optimizer)
        trained.append((plain(dict(report.model.state_dict())), _state(optimizer)))
        slots = {name: [(s.slot, s.status) for s in found] for name, found in report.slots.items()}
        trained[-1] += (slots, report.unoptimized if factory is None else ())
    assert plans[0] == plans[1]
    assert trained[0][:3] == trained[1][:3]


def test_what_no_optimizer_holds_is_told() -> None:
    model = keeps()
    report = grow(model, widen=WIDEN, example_inputs=rows(), factory=build, optimizers=SGD([model.up.weight]))
    assert report.unoptimized == ("first.weight", "first.bias", "up.bias", "down.weight", "down.bias")


def test_followers_are_rebuilt_too() -> None:
    model = keeps()
    average, bare = AveragedModel(model), copy.deepcopy(keeps())
    bare.load_state_dict(model.state_dict())
    with torch.no_grad():
        model.up.weight.add_(1)
    mapping = {name: tensor + 1 for name, tensor in bare.state_dict().items()}
    old = [average.module, copy.deepcopy(bare)]
    report = grow(model, widen=WIDEN, example_inputs=rows(), factory=build, followers=[average, bare, mapping])
    assert report.followers[0] is average
    assert report.followers[2] is mapping
    for follower, before in zip([average.module, report.followers[1]], old, strict=True):
        assert follower is not before
        assert_function_preserved(before, follower, rows())
    assert mapping["up.weight"].shape == (7, 8)
    assert bare.up.weight.shape == (5, 4)
    average.update_parameters(report.model)


def test_compiled_followers_are_refused() -> None:
    model = keeps()
    follower = nn.Module()
    follower._orig_mod = copy.deepcopy(model)  # as torch.compile makes them
    with pytest.raises(PlanError, match="a compiled follower"):
        grow(model, widen=WIDEN, example_inputs=rows(), factory=build, followers=follower)
