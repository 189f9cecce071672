"""States of schedulers go to schedulers of another optimizer."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    SequentialLR,
    StepLR,
)

from growkit.errors import EngineError
from growkit.train import Runtime, Settings
from growkit.train.scheduler_state import (
    check_scheduler_state,
    load_scheduler_state,
    load_schedulers_state,
    scheduler_state,
    schedulers_state,
)


class Warmup(LRScheduler):
    """Hands over to another scheduler; its state_dict is torch's, which holds that object with its optimizer."""

    def __init__(self, optimizer: Optimizer, after: LRScheduler):
        self.after = after
        super().__init__(optimizer)

    def get_lr(self) -> list[float]:
        return self.after.get_last_lr() if self.last_epoch > 2 else [0.1 * (self.last_epoch + 1)]

    def step(self) -> None:
        if self.last_epoch >= 2:
            self.after.step()
        super().step()


def sequence(optimizer: Optimizer) -> SequentialLR:
    return SequentialLR(optimizer, [LinearLR(optimizer, total_iters=3), CosineAnnealingLR(optimizer, 9)], [3])


MAKERS: list[Callable[[Optimizer], LRScheduler]] = [
    sequence,
    lambda optimizer: Warmup(optimizer, StepLR(optimizer, 3, gamma=0.5)),
    lambda optimizer: ChainedScheduler([StepLR(optimizer, 2), LinearLR(optimizer)], optimizer),
    lambda optimizer: MultiStepLR(optimizer, [2, 2, 7]),
    lambda optimizer: OneCycleLR(optimizer, 0.7, total_steps=12),
]


def optimizer() -> SGD:
    return SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def course(held: Optimizer, scheduler: LRScheduler, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        held.step()
        scheduler.step()
        rates.append(held.param_groups[0]["lr"])
    return rates


@pytest.mark.report("R153")
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("done", [0, 2, 4, 5])
def test_a_loaded_schedule_goes_on_with_its_own_optimizer(make: Any, done: int) -> None:
    first = optimizer()
    scheduler = make(first)
    course(first, scheduler, done)
    state, of_optimizer = scheduler_state(scheduler), first.state_dict()
    json.dumps(state)
    second = optimizer()
    loaded = make(second)
    second.load_state_dict(of_optimizer)
    check_scheduler_state("main", loaded, state)
    load_scheduler_state(loaded, state)
    goes_on = course(first, scheduler, 5)
    assert course(second, loaded, 5) == goes_on
    assert len(set(goes_on)) > 1
    assert [type(value) for value in vars(loaded).values()] == [type(value) for value in vars(scheduler).values()]


@pytest.mark.report("R155")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda held, n: OneCycleLR(held, 0.7, total_steps=n), "total_steps=20, and a saved one with 12"),
        (lambda held, n: SequentialLR(held, [LinearLR(held), CosineAnnealingLR(held, n)], [3]), "T_max=20"),
        (lambda held, n: Warmup(held, StepLR(held, n)), "step_size=20"),
        (lambda held, n: MultiStepLR(held, [n]), r"milestones=\{20: 1\}"),
    ],
)
def test_a_schedule_of_another_length_is_refused(make: Any, message: str) -> None:
    state = scheduler_state(make(optimizer(), 12))
    check_scheduler_state("main", make(optimizer(), 12), state)
    with pytest.raises(EngineError, match=message):
        check_scheduler_state("main", make(optimizer(), 20), state)


def test_other_schedulers_than_those_saved_are_refused() -> None:
    held = optimizer()
    saved = schedulers_state({"main": [StepLR(held, 2)]})
    with pytest.raises(EngineError, match="0 schedulers of the optimizer 'main', and 1 saved"):
        load_schedulers_state({"main": []}, saved)


@pytest.mark.parametrize(("by", "steps"), [("update", 6), ("epoch", 2)])
def test_schedulers_step_by_update_or_by_epoch(make_engine: Any, by: Any, steps: int) -> None:
    runtime = Runtime(schedulers=[lambda held: StepLR(held, 1, gamma=0.5)])
    engine = make_engine(settings=Settings(schedule_by=by, accumulate_steps=2), runtime=runtime)
    for limit in ({"max_steps": 4}, {"epochs": 1}, {"epochs": 1}, {"epochs": 2}):
        engine.fit(**limit)
    assert engine.optimizer.param_groups[0]["lr"] == 0.05 * 0.5**steps


@pytest.mark.parametrize("stop", [4, 5, 6])
def test_by_epoch_a_resumed_run_steps_them_once(make_engine: Any, stop: int) -> None:
    def make() -> Any:
        runtime = Runtime(schedulers=[sequence])
        return make_engine(settings=Settings(schedule_by="epoch"), runtime=runtime)

    whole, first, second = make(), make(), make()
    whole.fit(4)
    first.fit(max_steps=stop)
    second.model.load_state_dict(first.model.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    second.runtime.load_state_dict(first.runtime.state_dict())
    second._loop.load_state_dict(first._loop.state_dict())
    second.fit(4)
    assert second.optimizer.param_groups[0]["lr"] == whole.optimizer.param_groups[0]["lr"]
    for one, other in zip(second.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, other)
