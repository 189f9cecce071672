"""Containers that batches and carries are made of: opened, and put together again."""

from __future__ import annotations

import copy
import dataclasses
import gc
import types
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence


def children(value: object) -> list[tuple[str, Any]] | None:
    """Name and item of each entry of a dict, list, tuple, named tuple or dataclass; None for anything else."""
    if isinstance(value, torch.Tensor | PackedSequence | type):
        return None
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return list(zip(getattr(value, "_fields", None) or map(str, range(len(value))), value, strict=True))
    if dataclasses.is_dataclass(value):
        return [(name, getattr(value, name)) for name in _set_fields(value)]
    return None


def rebuilt(value: Any, items: Sequence[Any]) -> Any:
    """The container with other items, in the order of `children`; itself where all of them are its own."""
    if all(new is old for new, (_, old) in zip(items, children(value) or (), strict=True)):
        return value
    if isinstance(value, Mapping):
        made: Any = copy.copy(value) if isinstance(value, MutableMapping) else {}
        for key, item in zip(value, items, strict=True):
            made[key] = item
        return made
    if isinstance(value, list | tuple):
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    # Not dataclasses.replace: it runs __init__, which may ask for other arguments or compute fields anew.
    made = copy.copy(value)
    for name, item in zip(_set_fields(value), items, strict=True):
        object.__setattr__(made, name, item)
    return made


def holds(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of one of these kinds, or refers to one however deep inside it."""
    seen: dict[int, object] = {}
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, kinds):
            return True
        # From a function one gets to the whole of its module, from a class to all its bases.
        if id(item) not in seen and not isinstance(item, type | types.ModuleType | types.FunctionType):
            seen[id(item)] = item
            waiting += gc.get_referents(item)
    return False


def _set_fields(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value) if hasattr(value, field.name)]
