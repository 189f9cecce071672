"""Writes of a growth into optimizers. Every write goes through the journal."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from growkit.growth.edits import Edit
from growkit.growth.journal import Journal
from growkit.optim.check import CheckedOptimizer
from growkit.optim.remap import SlotReport, remap_state
from growkit.optim.rules import NewState

Optimizer = torch.optim.Optimizer


def move_state(
    optimizer: Optimizer,
    checked: CheckedOptimizer,
    edit: Edit,
    old: Tensor,
    new: Tensor,
    new_state: NewState,
    journal: Journal,
) -> tuple[SlotReport, ...]:
    """Puts a grown parameter at the place of the old one, with its state grown along."""
    place = checked.owned.get(edit.name)
    if place is None:
        return ()
    group = optimizer.param_groups[place.group]
    journal.set_element(group["params"], place.position, new)
    if old not in optimizer.state:
        return ()
    state, reports = remap_state(optimizer.state[old], group, checked.spec, edit.dims, new_state=new_state)
    journal.del_item(optimizer.state, old)
    if state:
        journal.set_item(optimizer.state, new, state)
    return reports


def adopt(
    optimizer: Optimizer, model: nn.Module, sources: Mapping[nn.Parameter, nn.Parameter], journal: Journal
) -> set[nn.Parameter]:
    """Puts new parameters into the groups of those they are modelled on, in module order; gives those adopted.

    They have no state: an optimizer makes it at their first step.
    """
    order = {parameter: number for number, parameter in enumerate(model.parameters())}
    adopted = set()
    for group in optimizer.param_groups:
        members, held = list(group["params"]), set(group["params"])
        names = list(group.get("param_names", ()))
        for parameter in sorted((p for p, source in sources.items() if source in held), key=order.__getitem__):
            before = [i for i, m in enumerate(members) if m in order and order[m] < order[parameter]]
            place = max(before, key=lambda i: order[members[i]]) + 1 if before else 0
            members.insert(place, parameter)
            names.insert(place, "")
            adopted.add(parameter)
        if len(members) > len(group["params"]):
            journal.set_elements(group["params"], members)
            if "param_names" in group:
                journal.set_item(group, "param_names", names)
    return adopted


def rename(optimizer: Optimizer, model: nn.Module, journal: Journal) -> None:
    """Brings the names that groups of named parameters keep in line with the model."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        if "param_names" in group:
            pairs = zip(group["params"], group["param_names"], strict=True)
            journal.set_item(group, "param_names", [names.get(parameter, old) for parameter, old in pairs])
