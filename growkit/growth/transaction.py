"""The only writer: one growth on a model, its optimizers and followers, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from growkit.growth.followers import Follower, grow_follower
from growkit.growth.journal import Journal
from growkit.growth.replace import insert_blocks, moved, replace_numbers, replace_tensors
from growkit.growth.resolve import Resolved, container_of
from growkit.growth.slots import adopt, move_state, rename
from growkit.optim.check import CheckedOptimizer
from growkit.optim.remap import SlotReport
from growkit.optim.rules import NewState


@dataclass
class Changes:
    """What was written: state slots by parameter, names that moved (old: new), and names of new parameters.

    Names are those after the growth. `unoptimized`: names of grown and new parameters that no optimizer holds.
    """

    slots: dict[str, tuple[SlotReport, ...]] = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)
    new_parameters: tuple[str, ...] = ()
    unoptimized: tuple[str, ...] = ()


def commit(
    model: nn.Module,
    resolved: Resolved,
    optimizers: Sequence[tuple[torch.optim.Optimizer, CheckedOptimizer]],
    followers: Sequence[Follower],
    new_state: NewState,
    journal: Journal,
) -> Changes:
    """Writes a growth that was checked. Followers first, since they need the edits only.

    If anything raises, `journal.undo()` takes all of it back.
    """
    changes = Changes()
    for optimizer, _ in optimizers:
        journal.keep_order(optimizer.state)
    for follower in followers:
        grow_follower(follower, resolved, journal)
    for name, old, new in replace_tensors(model, resolved.edits, journal):
        now = moved(name, resolved.plan.depth)
        for optimizer, checked in optimizers:
            reports = move_state(optimizer, checked, resolved.edits[name], old, new, new_state, journal)
            changes.slots[now] = changes.slots.get(now, ()) + reports
    replace_numbers(model, (*resolved.plan.numbers, *resolved.plan.floats), journal)
    sources: dict[nn.Parameter, nn.Parameter] = {}
    names = [name for name, _ in model.named_parameters()] + [name for name, _ in model.named_buffers()]
    for step in resolved.plan.depth:
        created = insert_blocks(model, step, journal)
        container = container_of(model, step.container)
        for new_index, source_index in created:
            source = dict(container[source_index].named_parameters())
            sources |= {p: source[name] for name, p in container[new_index].named_parameters()}
    return settle(changes, model, resolved, [optimizer for optimizer, _ in optimizers], sources, names, journal)


def settle(
    changes: Changes,
    model: nn.Module,
    resolved: Resolved,
    optimizers: Sequence[torch.optim.Optimizer],
    sources: Mapping[nn.Parameter, nn.Parameter],
    names: Iterable[str],
    journal: Journal,
) -> Changes:
    """Puts new parameters into optimizers, and says what moved and what no optimizer holds.

    `model`: the grown one; `sources`: each new parameter, and what it is modelled on; `names`: of the tensors before.
    """
    held: set[nn.Parameter] = set()
    for optimizer in optimizers:
        if sources:
            adopt(optimizer, model, sources, journal)
            rename(optimizer, model, journal)
        held |= {p for group in optimizer.param_groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    grown = {moved(name, resolved.plan.depth) for name in resolved.edits}
    changes.renames = {name: now for name in names if (now := moved(name, resolved.plan.depth)) != name}
    changes.new_parameters = tuple(name for name, p in parameters.items() if p in sources)
    changed = {name: p for name, p in parameters.items() if name in grown or p in sources}
    changes.unoptimized = tuple(name for name, p in changed.items() if p.requires_grad and p not in held)
    return changes
