"""What hangs on a model, handed over to the module that was built in its place: optimizers and followers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from growkit.errors import PlanError
from growkit.growth.followers import Follower, grow_follower, wrapped_in
from growkit.growth.journal import Journal
from growkit.growth.rebuild import Factory, origins_of, rebuilt
from growkit.growth.replace import moved
from growkit.growth.resolve import Resolved
from growkit.growth.slots import move_state
from growkit.growth.transaction import Changes, settle
from growkit.nn.contents import tensors_of
from growkit.optim.check import CheckedOptimizer
from growkit.optim.rules import NewState


def hand_over(
    model: nn.Module,
    new: nn.Module,
    resolved: Resolved,
    optimizers: Sequence[tuple[torch.optim.Optimizer, CheckedOptimizer]],
    new_state: NewState,
    journal: Journal,
) -> Changes:
    """Puts the parameters of a rebuilt module at the places of the old ones, in checked optimizers, with their state.

    If anything raises, `journal.undo()` takes all of it back.
    """
    changes = Changes()
    depth = resolved.plan.depth
    if optimizers:
        changes.slots = {moved(name, depth): () for name in resolved.edits}
    before, after = dict(model.named_parameters()), dict(new.named_parameters(remove_duplicate=False))
    for optimizer, checked in optimizers:
        journal.keep_order(optimizer.state)
        for name, place in checked.owned.items():
            now = moved(name, depth)
            old, parameter = before[name], after[now]
            if name in resolved.edits:
                reports = move_state(optimizer, checked, resolved.edits[name], old, parameter, new_state, journal)
                changes.slots[now] += reports
                continue
            journal.set_element(optimizer.param_groups[place.group]["params"], place.position, parameter)
            if old in optimizer.state:
                state = optimizer.state[old]
                journal.del_item(optimizer.state, old)
                journal.set_item(optimizer.state, parameter, state)
    sources = {
        after[name]: after[moved(origin.name, depth)]
        for name, origin in origins_of(resolved, model).items()
        if origin.copy and name in after
    }
    changes = settle(changes, new, resolved, [o for o, _ in optimizers], sources, tensors_of(model), journal)
    held = {p for optimizer, _ in optimizers for group in optimizer.param_groups for p in group["params"]}
    changes.unoptimized = tuple(n for n, p in new.named_parameters() if p.requires_grad and p not in held)
    return changes


def rebuild_followers(
    given: Iterable[Follower], resolved: Resolved, factory: Factory, journal: Journal
) -> tuple[Follower, ...]:
    """The same growth on followers: mappings in place, modules by the factory; gives them as they are now.

    `given`: as the caller passed them, each once; a new module takes the place of the old one inside its wrapper, and
    without wrapper stands in its place in the result.

    Raises:
        PlanError: a compiled follower, which would go on calling the old module; or as `rebuilt`.
    """
    found: list[Follower] = []
    for follower in given:
        if not isinstance(follower, nn.Module):
            grow_follower(follower, resolved, journal)
            found.append(follower)
            continue
        wrapper, attribute, inner = wrapped_in(follower, resolved.plan.fingerprint)
        if attribute == "_orig_mod":
            raise PlanError("a compiled follower, and factory=", "the raw module", "pass the module it was made of")
        new = rebuilt(inner, resolved, factory)
        if wrapper is None:
            found.append(new)
        else:
            journal.set_item(wrapper._modules, attribute, new)
            found.append(follower)
    return tuple(found)
