"""The state of what gives batches: of a loader that keeps one, or of the generators and samplers of a DataLoader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from growkit.errors import EngineError
from growkit.train import random_state

_WHOLE = "loader"
_PATHS = ("batch_sampler", "batch_sampler.sampler", "sampler", "dataset")


def keeps_state(value: object) -> bool:
    """Whether it has `state_dict` and `load_state_dict`."""
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))


def has_lasting_workers(value: object) -> bool:
    """Whether it starts worker processes once, which go on in later epochs with random states that nobody sees."""
    return bool(getattr(value, "persistent_workers", False) and not keeps_state(value))


def start_workers(loader: Iterable[object]) -> None:
    """Starts them, and leaves all random states as they were: the next iterator is made as in a later epoch."""
    now, state = random_state.capture(), loader_state(loader)
    iter(loader)
    restore_loader_state(loader, state)
    random_state.restore(now)


def loader_state(iterable: object) -> dict[str, Any]:
    """What `restore_loader_state` needs for the same batches in the same order.

    If the iterable keeps state, it is all of that. Else it is that of its generator, its samplers and its data set:
    of a DataLoader, taken before it is iterated over.
    """
    if keeps_state(iterable):
        return {_WHOLE: iterable.state_dict()}  # type: ignore[attr-defined]
    return {
        name: part.get_state() if isinstance(part, torch.Generator) else part.state_dict()
        for name, part in _parts(iterable)
    }


def restore_loader_state(iterable: object, state: Mapping[str, Any]) -> None:
    """Brings the iterable to where `loader_state` was taken of one like it.

    Raises: EngineError where something of it has no such state.
    """
    parts: dict[str, Any] = {_WHOLE: iterable} if keeps_state(iterable) else dict(_parts(iterable))
    if set(parts) != set(state):
        raise EngineError(
            f"train_data with the states of {_listed(parts)}, and one to go on from with those of {_listed(state)}",
            "data like that of the interrupted run",
            "give the loader, sampler and generator that the run was started with",
        )
    for name, part in parts.items():
        if isinstance(part, torch.Generator):
            part.set_state(state[name])
        else:
            part.load_state_dict(state[name])


def _parts(iterable: object) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    owners = {"": iterable, **{path: _at(iterable, path) for path in _PATHS}}
    for path, owner in owners.items():
        generator = getattr(owner, "generator", None)
        for name, part in ((path, owner), (f"{path}.generator".removeprefix("."), generator)):
            if id(part) not in seen and (isinstance(part, torch.Generator) or keeps_state(part)):
                seen.add(id(part))
                yield name, part


def _at(value: object, path: str) -> object:
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "nothing"
