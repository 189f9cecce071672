"""States of learning rate schedulers, those inside of others too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from growkit.errors import EngineError

_FIXED = (
    "T_max",
    "total_steps",
    "total_iters",
    "T_0",
    "T_mult",
    "milestones",
    "_milestones",
    "step_size",
    "patience",
    "cooldown",
    "metric",
    "mode",
)
"""Attributes that say how long a schedule is, where its parts begin, and what it goes by."""
_NESTED = "scheduler"
"""Key of the state of a scheduler that is an attribute of another one."""


def schedulers_state(schedulers: Mapping[str, Sequence[LRScheduler]]) -> dict[str, list[dict[str, Any]]]:
    """The states of the schedulers of each optimizer."""
    return {name: [scheduler_state(one) for one in held] for name, held in schedulers.items()}


def load_schedulers_state(schedulers: Mapping[str, Sequence[LRScheduler]], state: Mapping[str, Any]) -> None:
    """Takes over what `schedulers_state` returned, all or nothing.

    Raises: EngineError for other schedulers, and for those of another length.
    """
    for name, held in schedulers.items():
        saved = state.get(name, ())
        if len(saved) != len(held):
            raise EngineError(
                f"{len(held)} schedulers of the optimizer {name!r}, and {len(saved)} saved",
                "as many as were saved",
                "make the schedulers as for the saved run",
            )
        for scheduler, one in zip(held, saved, strict=True):
            check_scheduler_state(name, scheduler, one)
    for name, held in schedulers.items():
        for scheduler, one in zip(held, state.get(name, ()), strict=True):
            load_scheduler_state(scheduler, one)


def scheduler_state(scheduler: LRScheduler) -> dict[str, Any]:
    """Plain values, without the optimizer, also where a scheduler keeps another one in an attribute."""
    return {name: _plain(value) for name, value in scheduler.state_dict().items() if not isinstance(value, Optimizer)}


def _plain(value: object) -> object:
    if isinstance(value, LRScheduler):
        return {_NESTED: scheduler_state(value)}
    return dict(value) if isinstance(value, Counter) else value


def check_scheduler_state(name: str, scheduler: LRScheduler, state: Mapping[str, Any]) -> None:
    """Accepts the state of a scheduler that was made with the same lengths.

    name: of its optimizer.

    Raises: EngineError.
    """
    own = scheduler_state(scheduler)
    for key in _FIXED:
        if key in own and own[key] != state.get(key):
            raise EngineError(
                f"a {type(scheduler).__name__} of the optimizer {name!r} with {key.lstrip('_')}={own[key]!r}, "
                f"and a saved one with {state.get(key)!r}",
                "a schedule of the same length, by the same metric: the saved state would bring back the old one",
                "make the scheduler as for the saved run, or begin a new run from the saved weights",
            )
    for key, one in _inner(scheduler).items():
        nested = state.get(key, {}).get(_NESTED)
        if nested is not None:
            check_scheduler_state(name, one, nested)
    for one, nested in zip(getattr(scheduler, "_schedulers", ()), state.get("_schedulers", ()), strict=False):
        check_scheduler_state(name, one, nested)


def load_scheduler_state(scheduler: LRScheduler, state: Mapping[str, Any]) -> None:
    """Takes over a state that `scheduler_state` returned; the scheduler and those inside of it keep their optimizer."""
    inner = _inner(scheduler)
    values = {key: value for key, value in state.items() if key not in inner}
    for key, value in values.items():
        if isinstance(getattr(scheduler, key, None), Counter):
            values[key] = Counter(value)
    for key, one in inner.items():
        load_scheduler_state(one, state[key][_NESTED])
    scheduler.load_state_dict({**values, **inner})


def _inner(scheduler: LRScheduler) -> dict[str, LRScheduler]:
    """Schedulers in attributes, which a user's own scheduler saves as they are."""
    return {name: value for name, value in scheduler.state_dict().items() if isinstance(value, LRScheduler)}
