"""Optimizers by name, and the schedulers of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from growkit.errors import EngineError
from growkit.train.arguments import check_takes_one
from growkit.train.plateau import ReduceOnEvaluation

SchedulerGiven = LRScheduler | Callable[[Optimizer], LRScheduler]
OptimizersGiven = Optimizer | Mapping[str, Optimizer] | Callable[[nn.Module], Optimizer | Mapping[str, Optimizer]]

ONLY = "main"
"""Name of the only optimizer, where it was given without one."""

_ALLOWED = "a torch.optim.Optimizer, a dict of them by name, or a function of the model that returns either"


def named_optimizers(given: OptimizersGiven, model: nn.Module) -> dict[str, Optimizer]:
    """The optimizers by name, made where a function was given.

    Raises: EngineError for what is no optimizer, or holds none of the model's parameters.
    """
    made: object = given
    if not isinstance(given, Optimizer | Mapping):
        if isinstance(given, type) or not callable(given):
            what = f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}"
            raise EngineError(
                f"{what} as optimizers",
                _ALLOWED,
                "pass optimizers=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3)",
            )
        check_takes_one(given, "optimizers", "the model")
        made = given(model)
    if isinstance(made, Mapping) and not (made and all(isinstance(n, str) and n.isidentifier() for n in made)):
        raise EngineError(
            f"optimizers with the names {list(made)}", "at least one; names like Python's", 'name them like "generator"'
        )
    named: dict[str, Any] = dict(made) if isinstance(made, Mapping) else {ONLY: made}
    for name, optimizer in named.items():
        _check_optimizer(name, optimizer, model)
    if len({id(optimizer) for optimizer in named.values()}) < len(named):
        raise EngineError("one optimizer under two names", "an optimizer of its own for each name", "make another one")
    return named


def _check_optimizer(name: str, optimizer: object, model: nn.Module) -> None:
    if not isinstance(optimizer, Optimizer):
        raise EngineError(
            f"a {type(optimizer).__name__} as the optimizer {name!r}", _ALLOWED, "give the optimizer itself"
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise EngineError(
            f"{type(optimizer).__name__}, whose step needs a closure",
            "an optimizer that steps once on the gradients it finds",
            "use another optimizer, such as AdamW",
        )
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if held.isdisjoint(id(parameter) for parameter in model.parameters()):
        raise EngineError(
            f"{type(optimizer).__name__} holds none of the model's parameters",
            "an optimizer made from this very model's parameters",
            "make it from model.parameters(), or pass optimizers=lambda model: ...",
        )


def schedulers_by_name(
    given: Sequence[SchedulerGiven] | Mapping[str, Sequence[SchedulerGiven]], optimizers: Mapping[str, Optimizer]
) -> Mapping[str, Sequence[SchedulerGiven]]:
    """The schedulers of each optimizer by its name, as they were given.

    Raises: EngineError.
    """
    if not isinstance(given, Mapping):
        functions = [one for one in given if not isinstance(one, LRScheduler)]
        if functions and len(optimizers) > 1:
            raise EngineError(
                f"{len(functions)} functions as schedulers of {len(optimizers)} optimizers",
                "a dict from the name of an optimizer to a list of its schedulers",
                f"write schedulers={{{next(iter(optimizers))!r}: [...]}}",
            )
        ids = {id(optimizer): name for name, optimizer in optimizers.items()}
        by_name: dict[str, list[SchedulerGiven]] = {name: [] for name in optimizers}
        for one in given:
            owner = ids.get(id(one.optimizer)) if isinstance(one, LRScheduler) else None
            by_name[owner or next(iter(optimizers))].append(one)
        given = by_name
    if unknown := [name for name in given if name not in optimizers]:
        raise EngineError(
            f"schedulers of {', '.join(map(repr, unknown))}",
            f"the optimizers {', '.join(optimizers)}",
            "use these names",
        )
    return {name: tuple(given.get(name, ())) for name in optimizers}


def made_schedulers(
    given: Mapping[str, Sequence[SchedulerGiven]], optimizers: Mapping[str, Optimizer]
) -> dict[str, tuple[LRScheduler, ...]]:
    """The schedulers of each optimizer by its name, made where functions were given.

    Raises: EngineError.
    """
    made = {name: tuple(_scheduler(one, optimizer) for one in given[name]) for name, optimizer in optimizers.items()}
    for name, schedulers in made.items():
        if len(schedulers) > 1 and any(isinstance(one, ReduceOnEvaluation) for one in schedulers):
            raise EngineError(
                f"{', '.join(type(one).__name__ for one in schedulers)} of the optimizer {name!r}",
                "ReduceOnEvaluation as the only scheduler: others may write over what it took off",
                "give the schedule beside it as Settings(learning_rate=StepwiseSetting({...})), or as a function",
            )
    return made


def _scheduler(given: SchedulerGiven, optimizer: Optimizer) -> LRScheduler:
    if not isinstance(given, LRScheduler):
        check_takes_one(given, "a scheduler", "its optimizer")
    scheduler = given if isinstance(given, LRScheduler) else given(optimizer)
    untold = isinstance(scheduler, ReduceLROnPlateau) and not isinstance(scheduler, ReduceOnEvaluation)
    if not isinstance(scheduler, LRScheduler) or untold:
        raise EngineError(
            f"{type(scheduler).__name__} as a scheduler" + (", which waits for a metric" if untold else ""),
            "an LRScheduler that is stepped once per optimizer step; growkit.train.ReduceOnEvaluation, by itself",
            "write schedulers=[lambda optimizer: ReduceOnEvaluation(optimizer, 'loss', ...)]"
            if untold
            else "pass one of torch.optim.lr_scheduler, or change learning_rate from a callback",
        )
    if scheduler.optimizer is not optimizer:
        raise EngineError(
            f"{type(scheduler).__name__} of another optimizer",
            "schedulers of the engine's optimizer",
            "pass a function: schedulers=[lambda optimizer: ...]",
        )
    return scheduler
