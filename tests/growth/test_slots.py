"""Optimizers that follow."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, OneCycleLR

from growkit import Insert, grow
from tests.growth.nets import plain, residual, rows, train

GROWTH: dict[str, Any] = {
    "widen": {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7},
    "deepen": {"blocks": Insert(at=[1, 2])},
    "example_inputs": rows(),
}


def _named(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[list[str]]:
    names = {id(p): name for name, p in model.named_parameters()}
    return [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]


def test_new_parameters_enter_in_module_order() -> None:
    """So that an optimizer made anew from the grown model loads the state of this one."""
    model = residual()
    optimizer = Adam(model.parameters())
    train(model, optimizer)
    grow(model, optimizers=optimizer, **GROWTH)
    assert _named(model, optimizer) == [[name for name, _ in model.named_parameters()]]
    assert not any(p in optimizer.state for p in model.blocks[1].parameters())


def test_each_new_parameter_enters_the_group_of_its_model() -> None:
    model = residual()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": others, "lr": 1e-3, "name": "others"}, {"params": decayed, "weight_decay": 0.1}]
    optimizer = AdamW(groups, lr=1e-2)
    settings = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    grow(model, optimizers=optimizer, **GROWTH)
    assert [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups] == settings
    names = dict(model.named_parameters())
    assert _named(model, optimizer) == [[n for n in names if names[n].dim() == d] for d in (1, 2)]


def test_names_in_groups_follow() -> None:
    model = residual()
    optimizer = Adam(model.named_parameters())
    grow(model, optimizers=optimizer, **GROWTH)
    assert optimizer.param_groups[0]["param_names"] == [name for name, _ in model.named_parameters()]
    assert _named(model, optimizer) == [optimizer.param_groups[0]["param_names"]]


def test_names_of_foreign_parameters_stay() -> None:
    model, other = residual(), nn.Linear(2, 2)
    named = [*model.named_parameters(), ("other.weight", other.weight)]
    optimizer = Adam(named)
    report = grow(model, optimizers=optimizer, **GROWTH)
    assert optimizer.param_groups[0]["param_names"][-1] == "other.weight"
    assert optimizer.param_groups[0]["params"][-1] is other.weight
    assert len(report.foreign) == 1


def test_a_source_that_is_not_optimized_has_a_copy_that_is_not() -> None:
    model = residual()
    optimizer = Adam([p for name, p in model.named_parameters() if not name.startswith("blocks.1")])
    report = grow(model, optimizers=optimizer, **GROWTH)
    held = set(_named(model, optimizer)[0])
    assert {name for name, _ in model.named_parameters()} - held == set(report.unoptimized) | {"blocks.2.up.bias"}
    assert "blocks.2.up.weight" in report.unoptimized


def test_untouched_slots_are_the_same_objects_and_others_have_the_new_shapes() -> None:
    model = residual()
    optimizer = Adam(model.parameters(), amsgrad=True)
    train(model, optimizer)
    bias = model.blocks[1].up.bias
    slots = dict(optimizer.state[bias])
    step = optimizer.state[model.first.weight]["step"]
    grow(model, optimizers=optimizer, **GROWTH)
    assert all(optimizer.state[bias][k] is v for k, v in slots.items())
    for parameter, state in optimizer.state.items():
        for key in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
            assert state[key].shape == parameter.shape
    grown = optimizer.state[model.first.weight]["step"]
    assert grown == step
    assert grown is not step


def test_before_the_first_step_no_state_is_made() -> None:
    model = residual()
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    grow(model, optimizers=optimizer, **GROWTH)
    assert len(optimizer.state) == 0
    train(model, optimizer)
    assert len(optimizer.state) == len(list(model.parameters()))


def test_several_optimizers_follow_and_one_given_twice_follows_once() -> None:
    model = residual()
    first, second = Adam(model.first.parameters()), SGD(model.blocks.parameters(), lr=0.1, momentum=0.9)
    grow(model, optimizers=[first, second, second], **GROWTH)
    assert _named(model, first) == [["first.weight", "first.bias"]]
    assert _named(model, second) == [[name for name, _ in model.named_parameters() if name.startswith("blocks")]]


SCHEDULERS: list[Callable[[torch.optim.Optimizer], Any]] = [
    lambda o: LambdaLR(o, [lambda step: 0.9**step, lambda step: 1 / (1 + step)]),
    lambda o: CosineAnnealingLR(o, T_max=9),
    lambda o: OneCycleLR(o, max_lr=[0.1, 0.2], total_steps=12),
]


@pytest.mark.parametrize("make", SCHEDULERS)
@pytest.mark.parametrize("kind", [Adam, lambda groups, lr: SGD(groups, lr, momentum=0.9)])
def test_schedulers_go_on_as_they_would_have(make: Callable[..., Any], kind: Callable[..., Any]) -> None:
    """Learning rates, and the momentum that OneCycleLR moves, of every group at every step."""
    courses = []
    for growing in (False, True):
        model = residual()
        groups = [
            {"params": list(model.first.parameters())},
            {"params": [*model.blocks.parameters(), *model.last.parameters()]},
        ]
        optimizer = kind(groups, lr=0.1)
        scheduler = make(optimizer)
        course = []
        for step in range(10):
            if growing and step == 4:
                grow(model, optimizers=optimizer, **GROWTH)
            train(model, optimizer, 1, step)
            scheduler.step()
            keys = ("lr", "initial_lr", "momentum", "betas", "max_lr", "min_lr")
            course.append([[g.get(key) for key in keys] for g in optimizer.param_groups])
        courses.append((course, plain({k: v for k, v in scheduler.state_dict().items() if k != "lr_lambdas"})))
    assert courses[0] == courses[1]
