"""Learning rates of parameter groups, and the schedulers that move them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CyclicLR, LRScheduler, OneCycleLR

from growkit.errors import EngineError, SettingsError, nearest


def rates_by_optimizer(rates: Any, names: Iterable[str]) -> dict[str, float]:
    """The rates to set, by the names of optimizers, for `learning_rate` of settings at a point of the run.

    rates: one for all optimizers, or a dict by their names; None keeps an optimizer's own, as no entry does.

    Raises: SettingsError for a rate of an optimizer that is not there.
    """
    names = list(names)
    if not isinstance(rates, Mapping):
        rates = dict.fromkeys(names, rates)
    for name in rates:
        if name not in names:
            close = nearest(name, names)
            raise SettingsError(
                f"a learning_rate for the optimizer {name!r}",
                f"the names {', '.join(names)}",
                f"write {close[0]!r}" if close else "write one of them, or leave it out",
            )
    return {name: rate for name, rate in rates.items() if rate is not None}


def check_learning_rate(optimizer: Optimizer, schedulers: Iterable[LRScheduler], value: float) -> None:
    """Refuses a rate that could not be set for all groups.

    Raises: SettingsError for groups of different rates, and for schedulers that keep no base rate.
    """
    rates = [_base_rate(group) for group in optimizer.param_groups]
    if len(set(rates)) > 1:
        raise SettingsError(
            f"learning_rate={value!r} for parameter groups with the rates {', '.join(map(str, rates))}",
            "one rate for all groups: it would make them equal",
            "change group['lr'] and group['initial_lr'] in a callback that takes `optimizer`",
        )
    for scheduler in _flat(schedulers):
        if isinstance(scheduler, OneCycleLR | CyclicLR):
            raise SettingsError(
                f"learning_rate={value!r} beside {type(scheduler).__name__}",
                "a scheduler that starts from a base rate: this one would write its own rate over it",
                "use another scheduler, such as SequentialLR, or leave the learning rate to this one",
            )


def set_learning_rate(optimizer: Optimizer, schedulers: Iterable[LRScheduler], value: float) -> None:
    """Sets the rate of all groups; with schedulers, the base rate that their schedule multiplies.

    The rate of the next step is value times the schedule's present factor, that is present rate over
    base rate: 1 without a scheduler. Schedulers that compute a rate from the last one (step, cosine)
    and those that compute it from the base rate (lambda) then both go on from there.
    """
    schedulers = list(schedulers)
    for group in optimizer.param_groups:
        base = _base_rate(group)
        scheduled = bool(schedulers) and base != 0.0
        rate = value * (float(group["lr"]) / base) if scheduled else value
        _set(group, "lr", rate)
        if "initial_lr" in group:
            _set(group, "initial_lr", value)
    for scheduler in _flat(schedulers):
        if hasattr(scheduler, "base_lrs"):
            scheduler.base_lrs = [value for _ in scheduler.base_lrs]
        scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]


def check_takes_over(optimizer: Optimizer, schedulers: Sequence[LRScheduler], then: Sequence[object]) -> None:
    """Whether `take_over_schedule` can be done, for as many groups as `then`.

    Raises: EngineError.
    """
    alone = [type(one).__name__ for one in _flat(schedulers) if isinstance(one, OneCycleLR | CyclicLR)]
    if alone or (schedulers and len(then) != len(optimizer.param_groups)):
        raise EngineError(
            f"{alone[0]} of a new optimizer"
            if alone
            else f"schedulers of {len(then)} parameter groups, for a new optimizer with {len(optimizer.param_groups)}",
            "a schedule that goes on by a factor for each parameter group",
            "make as many groups as before, or leave the schedulers out",
        )


def take_over_schedule(
    optimizer: Optimizer, schedulers: Sequence[LRScheduler], then: Sequence[Mapping[str, Any]], value: float | None
) -> None:
    """Rates of a new optimizer where the schedulers of another one, with the groups `then`, go on.

    Each rate is the present factor of the schedule times the new base rate: value, or the optimizer's own if None.
    """
    for number, group in enumerate(optimizer.param_groups):
        base = _base_rate(group) if value is None else value
        was = _base_rate(then[number]) if schedulers else 0.0
        _set(group, "lr", base * (float(then[number]["lr"]) / was) if was else base)
        if "initial_lr" in group:
            _set(group, "initial_lr", base)
    for scheduler in _flat(schedulers):
        if hasattr(scheduler, "base_lrs"):
            scheduler.base_lrs = [_base_rate(group) for group in optimizer.param_groups]
        scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]


def _base_rate(group: Mapping[str, Any]) -> float:
    return float(group.get("initial_lr", group["lr"]))


def _set(group: dict[str, object], key: str, value: float) -> None:
    held = group[key]
    if isinstance(held, torch.Tensor):
        held.fill_(value)  # a compiled or captured optimizer step holds this very tensor
    else:
        group[key] = value


def _flat(schedulers: Iterable[LRScheduler]) -> Iterator[LRScheduler]:
    """The schedulers and those inside of them (SequentialLR, ChainedScheduler)."""
    for scheduler in schedulers:
        yield scheduler
        yield from _flat(getattr(scheduler, "_schedulers", ()))
