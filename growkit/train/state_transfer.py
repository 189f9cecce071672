"""Handing an optimizer over from one model instance to another, by parameter name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from growkit.errors import EngineError

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Handover:
    """What one optimizer will hold for the new model; nothing is changed until `commit`."""

    optimizer: Optimizer
    groups: list[list[torch.Tensor]]
    """The parameters of each group, in their old order, new ones at the end."""
    state: dict[torch.Tensor, object]
    """The state of each parameter that keeps one."""

    def commit(self) -> None:
        """Puts parameters and state into the optimizer; the object and its groups stay, so schedulers go on."""
        for group, parameters in zip(self.optimizer.param_groups, self.groups, strict=True):
            group["params"] = parameters
        self.optimizer.state.clear()
        self.optimizer.state.update(self.state)


def plan_handover(
    optimizer: Optimizer,
    old: nn.Module,
    new: nn.Module,
    *,
    optimizer_state: str = "transfer",
    parameter_map: Mapping[str, str] | None = None,
    alone: bool = True,
) -> Handover:
    """Which parameter of `new` stands where one of `old` stood, with which state.

    Names are matched as they are, or by `parameter_map` (new name -> old name). "transfer" asks for a
    match of name, shape and dtype for every parameter; "reset" matches names only to keep the groups,
    and starts with empty state. New parameters join the only group of an optimizer that is `alone`. Parameters of
    neither model stay as they are; so does an optimizer that was handed over already, as growth by a factory does.

    Raises: EngineError, with names, where that cannot be done.
    """
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if optimizer_state == "transfer" and held & _ids(new) and not held & (_ids(old) - _ids(new)):
        return Handover(optimizer, [list(group["params"]) for group in optimizer.param_groups], dict(optimizer.state))
    names_in_old = {id(parameter): name for name, parameter in old.named_parameters()}
    old_parameters, new_parameters = dict(old.named_parameters()), dict(new.named_parameters())
    renamed = _checked_map(parameter_map or {}, old_parameters, new_parameters)
    new_name_of = {renamed.get(name, name): name for name in new_parameters}
    transfer = optimizer_state == "transfer"
    if transfer:
        _check_match(old_parameters, new_parameters, renamed, new_name_of)

    groups: list[list[torch.Tensor]] = []
    state: dict[torch.Tensor, object] = {}
    for group in optimizer.param_groups:
        kept: list[torch.Tensor] = []
        for parameter in group["params"]:
            old_name = names_in_old.get(id(parameter))
            if old_name is None:
                target = parameter
            elif old_name in new_name_of:
                target = new_parameters[new_name_of[old_name]]
            else:
                continue
            kept.append(target)
            if parameter in optimizer.state and (transfer or old_name is None):
                state[target] = optimizer.state[parameter]
        groups.append(kept)
    added = [
        name for name, p in new_parameters.items() if p.requires_grad and renamed.get(name, name) not in old_parameters
    ]
    if added and (len(groups) > 1 or not alone):
        places = f"an optimizer with {len(groups)} parameter groups" if alone else "one of several optimizers"
        raise EngineError(
            f"new parameters {_listed(added)} for {places}",
            "parameters that take the place of an old one",
            "name an old parameter of the right group for each in parameter_map, or grow the model with growkit",
        )
    groups[0] += [new_parameters[name] for name in added]
    return Handover(optimizer, groups, state)


def _ids(model: nn.Module) -> set[int]:
    return {id(parameter) for parameter in model.parameters()}


def _checked_map(given: Mapping[str, str], old: Mapping[str, object], new: Mapping[str, object]) -> Mapping[str, str]:
    unknown = [name for name in given if name not in new] + [name for name in given.values() if name not in old]
    origins = [given.get(name, name) for name in new]
    twice = sorted({name for name in origins if name in given.values() and origins.count(name) > 1})
    if unknown or twice:
        raise EngineError(
            f"parameter_map with {'unknown' if unknown else 'repeated'} names: {_listed(unknown or twice)}",
            "new parameter name -> old parameter name, each old one once",
            "compare with model.named_parameters() of both models",
        )
    return given


def _check_match(
    old: Mapping[str, torch.Tensor],
    new: Mapping[str, torch.Tensor],
    renamed: Mapping[str, str],
    new_name_of: Mapping[str, str],
) -> None:
    faults = [f"{name} is missing" for name in old if name not in new_name_of]
    for name, parameter in new.items():
        origin = old.get(renamed.get(name, name))
        if origin is None:
            faults.append(f"{name} is new")
        elif origin.shape != parameter.shape:
            faults.append(f"{name} is {tuple(parameter.shape)}, was {tuple(origin.shape)}")
        elif origin.dtype != parameter.dtype:
            faults.append(f"{name} is {parameter.dtype}, was {origin.dtype}")
    if faults:
        raise EngineError(
            f"a new model instance that the optimizer state does not fit: {_listed(faults)}",
            'the same names, shapes and dtypes for optimizer_state="transfer"; parameter_map for renamed parameters',
            'grow the model with growkit, which moves the state along, or return optimizer_state="reset"',
        )


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f"; and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return "; ".join(names[:_SHOWN]) + more
