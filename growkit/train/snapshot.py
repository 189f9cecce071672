"""Everything that a run needs to go on, as one nested value, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from growkit.errors import EngineError
from growkit.train import random_state
from growkit.train.config_updates import SettingsInForce
from growkit.train.fit_loop import FitLoop
from growkit.train.learning_rate import (
    check_takes_over,
    rates_by_optimizer,
    set_learning_rate,
    take_over_schedule,
)
from growkit.train.run_state import RunState
from growkit.train.sharding import whole_tensor

Stateful = Mapping[str, Any]
"""Objects with `state_dict` and `load_state_dict`, by name."""

_SHOWN = 6


def snapshot(state: RunState, loop: FitLoop, stateful: Stateful) -> dict[str, Any]:
    """The state of a run between two units of work. All ranks have to take part.

    Weights, slots and gradients go by the names of parameters, whole where they are sharded; what differs between
    ranks (place in the data, random numbers, gradients that wait) is kept for each.
    """
    runtime, model = state.runtime, state.runtime.model
    waiting = {}
    if state.progress.partial or state.gradients_stay:
        waiting = {name: whole_tensor(p.grad) for name, p in model.named_parameters() if p.grad is not None}
    own = {"loop": loop.state_dict(), "waiting": waiting, "metrics": state.metrics.state_dict()}
    own["random"] = random_state.capture()  # Last: the loop's state may fetch a batch.
    return {
        "model": {
            name: whole_tensor(v) if isinstance(v, torch.Tensor) else v for name, v in model.state_dict().items()
        },
        "shared": _shared(model),
        "frozen": [name for name, parameter in model.named_parameters() if not parameter.requires_grad],
        "optimizers": {name: _optimizer_state(one, model) for name, one in runtime.optimizers.items()},
        "runtime": runtime.state_dict(),
        "followers": [_follower_state(one) for one in runtime.followers if one is not runtime.averages],
        "settings": {"given": _plain(state.in_force.given), "updates": dict(state.in_force.updates)},
        "data_updated": state.data_updated,
        "rows": [len(state.history), len(state.evaluations)],
        "services": {name: dict(service.state_dict()) for name, service in state.services.items()},
        "stateful": {name: one.state_dict() for name, one in stateful.items()},
        "ranks": runtime.ranks.gather("a checkpoint", own),
    }


def restore(
    state: RunState, loop: FitLoop, stateful: Stateful, saved: Mapping[str, Any], *, new_optimizers: bool = False
) -> Mapping[str, Any]:
    """Brings a run, whose model has the saved structure, to a state that `snapshot` gave.

    new_optimizers: theirs, which are those of the run, are not taken over; counters and schedules are.

    It gives the states of random number generators, for `random_state.restore` just before training goes on.

    Raises: EngineError, SettingsError for a run that is set up in another way.
    """
    runtime, model = state.runtime, state.runtime.model
    ranks = saved["ranks"]
    if len(ranks) != runtime.ranks.count:
        raise EngineError(
            f"a checkpoint of {len(ranks)} processes, for a run with {runtime.ranks.count}",
            "as many as were saved: each has a place in the data and random numbers of its own",
            f"start {len(ranks)} processes, or begin a new run from the saved weights",
        )
    _check_same("optimizers", saved["optimizers"], runtime.optimizers)
    _check_same("services", saved["services"], state.services)
    _check_same("objects with a state", saved["stateful"], stateful)
    in_force = SettingsInForce(state.in_force.given, saved["settings"]["updates"])
    followers = [one for one in runtime.followers if one is not runtime.averages]
    _check_same("followers", [str(len(saved["followers"]))], [str(len(followers))])

    if new_optimizers:
        for name, optimizer in runtime.optimizers.items():
            check_takes_over(optimizer, runtime.schedulers[name], saved["optimizers"][name]["groups"])
    model.load_state_dict(saved["model"])
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in saved["frozen"])
    for name, optimizer in runtime.optimizers.items() if not new_optimizers else ():
        _load_optimizer(optimizer, name, model, saved["optimizers"][name])
    runtime.load_state_dict(saved["runtime"])
    for follower, values in zip(followers, saved["followers"], strict=True):
        _load_follower(follower, values)
    own = ranks[runtime.ranks.own]
    loop.load_state_dict(own["loop"])
    state.metrics.load_state_dict(own["metrics"])
    parameters = dict(model.named_parameters())
    for name, gradient in own["waiting"].items():
        parameters[name].grad = gradient.to(parameters[name].device)
    progress = state.progress
    state.in_force = in_force
    state.settings = in_force.at(epoch=progress.epoch, step=progress.step, updates=progress.updates)
    if new_optimizers:
        rates = rates_by_optimizer(state.settings.learning_rate, runtime.optimizers)
        for name, optimizer in runtime.optimizers.items():
            then = saved["optimizers"][name]
            take_over_schedule(optimizer, runtime.schedulers[name], then["groups"], rates.get(name))
            state.display.message(f"resumed with {name}={type(optimizer).__name__} as new, was {then['class']}")
    _tell_changes(state, saved["settings"]["given"])
    if saved["data_updated"]:
        state.display.message(
            "resumed with train_data of the Engine: the run had replaced its own by an update; "
            "a function train_data(*, epoch, user) that follows Settings(user=...) is gone on with"
        )
        state.data_updated = True
    for name, one in stateful.items():
        one.load_state_dict(saved["stateful"][name])
    random: Mapping[str, Any] = own["random"]
    return random


def differences(model: nn.Module, saved: Mapping[str, Any]) -> list[str]:
    """What of a model is not as in a saved state: names and shapes of parameters and buffers, shared parameters."""
    now = {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    then = {name: value for name, value in saved["model"].items() if isinstance(value, torch.Tensor)}
    found = [f"{name} is missing" for name in then if name not in now]
    for name, value in now.items():
        if name not in then:
            found.append(f"{name} is new")
        elif value.shape != then[name].shape:
            found.append(f"{name} is {tuple(value.shape)}, was {tuple(then[name].shape)}")
    shared, were = _shared(model), saved.get("shared")
    if were not in (None, shared):
        found.append(f"shared parameters are {_listed(shared)}, were {_listed(were)}")
    return found


def _shared(model: nn.Module) -> list[list[str]]:
    """The names of each parameter that has several."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [several for several in names.values() if len(several) > 1]


def _listed(shared: Sequence[Sequence[str]]) -> str:
    return ", ".join(" = ".join(names) for names in shared) or "none"


def _optimizer_state(optimizer: Optimizer, model: nn.Module) -> dict[str, Any]:
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups, slots = [], {}
    for group in optimizer.param_groups:
        held = [names.get(parameter) for parameter in group["params"]]
        if None in held:
            raise EngineError(
                f"{type(optimizer).__name__} with {held.count(None)} parameters that the model does not have",
                "optimizers of the model's parameters, where a run is saved",
                "make them part of the model, or save no checkpoints",
            )
        groups.append({**{key: value for key, value in group.items() if key != "params"}, "params": held})
        for name, parameter in zip(held, group["params"], strict=True):
            slots[name] = {
                key: whole_tensor(value) if isinstance(value, torch.Tensor) else value
                for key, value in optimizer.state.get(parameter, {}).items()
            }
    return {"class": type(optimizer).__qualname__, "groups": groups, "state": slots}


def _load_optimizer(optimizer: Optimizer, name: str, model: nn.Module, saved: Mapping[str, Any]) -> None:
    """Groups and slots as saved, of the parameters with the saved names."""
    _check_same(f"class of the optimizer {name!r}", [saved["class"]], [type(optimizer).__qualname__])
    _check_same(
        f"parameter groups of the optimizer {name!r}", [str(len(saved["groups"]))], [str(len(optimizer.param_groups))]
    )
    parameters = dict(model.named_parameters(remove_duplicate=False))
    optimizer.state.clear()
    for group, then in zip(optimizer.param_groups, saved["groups"], strict=True):
        held = [parameters[name] for name in then["params"]]
        group.update({**then, "params": held})
        for key, parameter in zip(then["params"], held, strict=True):
            if slots := saved["state"][key]:
                optimizer.state[parameter] = {
                    slot: _placed(slot, value, parameter, group) if isinstance(value, torch.Tensor) else value
                    for slot, value in slots.items()
                }


def _placed(slot: str, value: torch.Tensor, parameter: torch.Tensor, group: Mapping[str, Any]) -> torch.Tensor:
    """Where the optimizer itself keeps it: counts of steps stay on the CPU unless its kernel reads them."""
    if slot == "step" and not (group.get("capturable") or group.get("fused")):
        return value
    return value.to(parameter.device)


def _follower_state(follower: Any) -> dict[str, Any]:
    return dict(follower.state_dict() if isinstance(follower, nn.Module) else follower)


def _load_follower(follower: Any, values: Mapping[str, Any]) -> None:
    if isinstance(follower, nn.Module):
        follower.load_state_dict(values)
        return
    _check_same("tensors of a follower", values, follower)
    for name, value in values.items():
        follower[name].copy_(value)


def _tell_changes(state: RunState, given: Mapping[str, object]) -> None:
    """Settings that were given anew win over those of the interrupted run; a rate is then set."""
    now = _plain(state.in_force.given)
    changed = [name for name in now if given.get(name) != now[name]]
    for name in changed:
        state.display.message(f"resumed with {name}={now[name]}, was {given.get(name)}")
    if "learning_rate" in changed:
        for name, rate in rates_by_optimizer(state.settings.learning_rate, state.runtime.optimizers).items():
            set_learning_rate(state.runtime.optimizers[name], state.runtime.schedulers[name], rate)


def _plain(settings: Any) -> dict[str, str]:
    """Each setting as text."""
    return {name: repr(getattr(settings, name)) for name in settings.__slots__}


def _check_same(what: str, saved: Any, present: Any) -> None:
    if list(saved) != list(present):
        raise EngineError(
            f"a checkpoint with the {what} {', '.join(saved) or 'none'}, for a run with {', '.join(present) or 'none'}",
            f"the same {what} as in the run that was saved",
            "set up the run as it was, or start a new one from the weights",
        )


def shown(found: list[str]) -> str:
    """The first few of a list, and how many more."""
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more
