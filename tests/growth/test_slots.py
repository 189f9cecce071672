"""Optimizers that follow."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, lr_scheduler
from torch.optim.swa_utils import SWALR

from growkit import Insert, discover, grow, make_plan
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


@pytest.mark.parametrize(("new_state", "second_moment"), [("mean", 4.0), ("zero", 0.0)])
def test_new_entries_start_as_asked(new_state: Any, second_moment: float) -> None:
    model = residual()
    optimizer = Adam(model.parameters())
    train(model, optimizer)
    up = model.blocks[0].up
    optimizer.state[up.bias]["exp_avg_sq"].copy_(torch.tensor([1.0, 2.0, 4.0, 5.0, 8.0]))
    grow(model, widen={"blocks.0.up.weight[0]": 7}, optimizers=optimizer, new_state=new_state, example_inputs=rows())
    state = optimizer.state[up.bias]
    assert state["exp_avg_sq"].tolist() == [1, 2, 4, 5, 8, second_moment, second_moment]
    assert state["exp_avg"].tolist()[5:] == [0, 0]
    assert state["step"] == 3


def test_reset_drops_the_state_of_parameters_with_new_entries() -> None:
    model = residual()
    optimizer = Adam(model.parameters())
    train(model, optimizer)
    report = grow(
        model, widen={"blocks.0.up.weight[0]": 7}, optimizers=optimizer, new_state="reset", example_inputs=rows()
    )
    without = {name for name, p in model.named_parameters() if p not in optimizer.state}
    assert without == {"blocks.0.up.weight", "blocks.0.up.bias", "blocks.0.down.weight"} == set(report.slots)
    train(model, optimizer)
    assert optimizer.state[model.blocks[0].up.bias]["step"] == 3


SCHEDULERS: list[Callable[[torch.optim.Optimizer], Any]] = [
    lambda o: lr_scheduler.LambdaLR(o, [lambda step: 0.9**step, lambda step: 1 / (1 + step)]),
    lambda o: lr_scheduler.MultiplicativeLR(o, lambda step: 1 - 0.1 * step),
    lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5),
    lambda o: lr_scheduler.MultiStepLR(o, [2, 6]),
    lambda o: lr_scheduler.ConstantLR(o, 0.5, total_iters=6),
    lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=7),
    lambda o: lr_scheduler.ExponentialLR(o, 0.8),
    lambda o: lr_scheduler.PolynomialLR(o, 9, power=2.0),
    lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=9),
    lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=3),
    lambda o: lr_scheduler.CyclicLR(o, [0.01, 0.02], [0.1, 0.2], step_size_up=3, cycle_momentum=True),
    lambda o: lr_scheduler.OneCycleLR(o, max_lr=[0.1, 0.2], total_steps=12),
    lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1),
    lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ExponentialLR(o, 0.9), lr_scheduler.StepLR(o, 3)]),
    lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=3), lr_scheduler.ExponentialLR(o, 0.8)], [3]
    ),
    lambda o: SWALR(o, swa_lr=[0.01, 0.02], anneal_epochs=6),
]


def _in_two_groups(model: nn.Module, kind: Callable[..., torch.optim.Optimizer]) -> torch.optim.Optimizer:
    others = [*model.blocks.parameters(), *model.last.parameters()]
    return kind([{"params": list(model.first.parameters())}, {"params": others}], lr=0.1)


@pytest.mark.parametrize("make", SCHEDULERS)
@pytest.mark.parametrize("kind", [Adam, lambda groups, lr: SGD(groups, lr, momentum=0.9)], ids=["adam", "momentum"])
def test_schedulers_go_on_as_they_would_have(make: Callable[..., Any], kind: Callable[..., Any]) -> None:
    """Learning rates, and the momentum that OneCycleLR moves, of every group at every step."""
    plan = make_plan(discover(residual(), rows()), GROWTH["widen"], GROWTH["deepen"])
    courses = []
    for growing in (False, True):
        model = residual()
        optimizer = _in_two_groups(model, kind)
        scheduler = make(optimizer)
        course = []
        for step in range(10):
            if growing and step == 4:
                grow(model, plan, optimizers=optimizer)
            train(model, optimizer, 1, step)
            scheduler.step(*[1.0] * isinstance(scheduler, lr_scheduler.ReduceLROnPlateau))
            keys = ("lr", "initial_lr", "momentum", "betas", "max_lr", "min_lr")
            course.append([[g.get(key) for key in keys] for g in optimizer.param_groups])
        state = scheduler.state_dict()
        courses.append((course, plain({k: v for k, v in state.items() if k not in ("lr_lambdas", "anneal_func")})))
    assert courses[0] == courses[1]
    assert courses[0][0].count(courses[0][0][0]) < 10, "nothing was scheduled"


def test_every_scheduler_of_torch_is_among_them() -> None:
    known = {kind for kind in vars(lr_scheduler).values() if isinstance(kind, type) and kind.__name__[0] != "_"}
    schedulers = {kind for kind in known if issubclass(kind, lr_scheduler.LRScheduler)} - {lr_scheduler.LRScheduler}
    made = {type(make(_in_two_groups(residual(), Adam))) for make in SCHEDULERS}
    assert made == schedulers | {SWALR}
