"""Copies of a model that must grow with it: averages of its weights, as modules or as mappings of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping

import torch
from torch import Tensor, nn

from growkit.errors import PlanError
from growkit.growth.journal import Journal
from growkit.growth.plan import Fingerprint, block_path
from growkit.growth.replace import insert_blocks, renames, replace_numbers, replace_tensors
from growkit.growth.resolve import Resolved
from growkit.nn.contents import tensors_of

Follower = nn.Module | MutableMapping[str, Tensor]

_WRAPPERS = ("module", "_orig_mod")
"""Attributes under which wrappers such as `AveragedModel` keep the model."""


def as_followers(followers: Follower | Iterable[Follower] | None, fingerprint: Fingerprint) -> tuple[Follower, ...]:
    """The followers, wrappers removed, checked against what the plan says of the model.

    Raises:
        PlanError: a follower is neither module nor mapping, or its tensors are not those of the model.
    """
    found = [_checked(follower, fingerprint) for follower in given_followers(followers)]
    return tuple({id(follower): follower for follower in found}.values())


def given_followers(followers: Follower | Iterable[Follower] | None) -> tuple[Follower, ...]:
    """The followers as they were given, as a tuple, each once.

    Raises:
        PlanError: neither module nor mapping nor several of them.
    """
    if followers is None:
        return ()
    if isinstance(followers, nn.Module | MutableMapping):
        return (followers,)
    if not isinstance(followers, Iterable):
        raise _misfit(f"an object of type {type(followers).__name__}")
    return tuple({id(follower): follower for follower in followers}.values())


def check_apart(model: nn.Module, followers: Iterable[Follower]) -> None:
    """Passes if no follower holds a tensor of the model itself.

    Raises:
        PlanError: naming what they share: it would be grown twice, or lose its tie.
    """
    own = {id(tensor): name for name, tensor in tensors_of(model).items()}
    for follower in followers:
        tensors = tensors_of(follower) if isinstance(follower, nn.Module) else follower
        shared = [own[id(tensor)] for tensor in tensors.values() if id(tensor) in own]
        if shared:
            raise _misfit(f"a {type(follower).__name__} that holds the model's own {', '.join(shared[:3])}")


def grow_follower(follower: Follower, resolved: Resolved, journal: Journal) -> None:
    """The same growth, with the same drawn entries, on a follower."""
    plan = resolved.plan
    if isinstance(follower, nn.Module):
        for _ in replace_tensors(follower, resolved.edits, journal):
            pass
        replace_numbers(follower, (*plan.numbers, *plan.floats), journal)
        for step in plan.depth:
            insert_blocks(follower, step, journal)
        return
    for name, old in list(follower.items()):
        edit = resolved.edits.get(resolved.aliases.get(name, name))
        if edit is not None:
            journal.set_item(follower, name, edit.value(old))
    for step in plan.depth:
        moved = renames(list(follower), step)
        items = {moved.get(name, name): tensor for name, tensor in follower.items()}
        for number, insertion in enumerate(step.insertions):
            source = block_path(step.container, insertion.source) + "."
            new = block_path(step.container, insertion.position + number) + "."
            bypassed = tuple(path + "." for path in insertion.bypassed)
            for name, tensor in follower.items():
                inner = name.removeprefix(source)
                if name.startswith(source) and not inner.startswith(bypassed):
                    value = insertion.silenced.get(inner)
                    items[new + inner] = tensor.clone() if value is None else torch.full_like(tensor, value)
        journal.replace_items(follower, list(items.items()))


def wrapped_in(follower: nn.Module, fingerprint: Fingerprint) -> tuple[nn.Module | None, str, nn.Module]:
    """The innermost wrapper of a follower and its attribute, None without one, and the module that follows.

    Raises:
        PlanError: no module of the model's structure is in it.
    """
    wrapper, attribute, inner = None, "", follower
    while not _fits(tensors_of(inner), fingerprint, every=True):
        found = next((a for a in _WRAPPERS if isinstance(getattr(inner, a, None), nn.Module)), None)
        if found is None:
            raise _misfit(f"a module {type(follower).__name__} whose tensors differ from the model's")
        wrapper, attribute, inner = inner, found, getattr(inner, found)
    return wrapper, attribute, inner


def _checked(follower: Follower, fingerprint: Fingerprint) -> Follower:
    if isinstance(follower, nn.Module):
        return wrapped_in(follower, fingerprint)[2]
    if not isinstance(follower, MutableMapping):
        raise _misfit(f"an object of type {type(follower).__name__}")
    if not _fits(follower, fingerprint, every=False):
        raise _misfit(f"a mapping with the keys {sorted(follower)[:3]}... that does not hold the model's tensors")
    return follower


def _fits(tensors: Mapping[str, Tensor], fingerprint: Fingerprint, every: bool) -> bool:
    expected = fingerprint.tensors
    known = [name for name in tensors if name in expected]
    if any(tuple(tensors[name].shape) != expected[name] for name in known):
        return False
    return len(known) == len(expected) if every else bool(known)


def _misfit(given: str) -> PlanError:
    return PlanError(
        f"as follower, {given}",
        "modules of the model's structure (also inside AveragedModel), or mappings from its tensor names to tensors",
        "pass what follows this model, made before this growth",
    )
