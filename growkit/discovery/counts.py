"""Ints that count the blocks of a container, or number them.

What an int does is found by trying: with the count one less, a model that goes by it runs without the last block, and
otherwise as before. `growkit_sizes` of a class says it without trying.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from growkit.axes.axis import Block, Count, Index
from growkit.discovery.inputs import CallModel, run_model
from growkit.discovery.per_block import ListsPerBlock
from growkit.discovery.untouched import State
from growkit.errors import InputsError, LayoutError
from growkit.nn.contents import Contents

_LENGTH = re.compile(r"len\((?P<container>[\w.]*)\)")
INDEX = "index"


def is_count(place: str) -> bool:
    """Whether an entry of `growkit_sizes` speaks of blocks: `"len(path.of.container)"` or `"index"`."""
    return place == INDEX or _LENGTH.fullmatch(place) is not None


def declared_counts(contents: Contents) -> Iterator[Count]:
    """The counts that `growkit_sizes` names: `{"num_layers": "len(layers)"}`.

    Raises:
        LayoutError: an entry that is not the length of what it names.
    """
    for path, module in contents.modules.items():
        for attribute, place in _declared(module).items():
            match = _LENGTH.fullmatch(place)
            if match is None:
                continue
            container = _join(path, match["container"])
            found = contents.modules.get(container)
            length = len(found) if isinstance(found, nn.ModuleList | nn.Sequential) else None
            if getattr(module, attribute, None) != length:
                raise LayoutError(
                    f"{type(module).__name__}.growkit_sizes says that {attribute} = {getattr(module, attribute, None)} "
                    f"is {place}, which is {'no container' if length is None else length}",
                    "'len(path)' of a ModuleList or Sequential, relative to the module, of that length",
                    f"mend growkit_sizes of {type(module).__name__}",
                )
            assert length is not None
            if attribute in vars(module):
                yield Count(_join(path, attribute), length, container, "count")


def declared_indices(contents: Contents, blocks: Collection[Block]) -> Iterator[Index]:
    """The numbers of blocks that `growkit_sizes` names: `{"layer_idx": "index"}`, in or below a block.

    Raises:
        LayoutError: an entry that is not the number of its block.
    """
    for path, module in contents.modules.items():
        for attribute, place in _declared(module).items():
            if place != INDEX:
                continue
            inside = [b for b in blocks if f"{path}.".startswith(_join(b.container, f"{b.index}."))]
            block = max(inside, key=lambda b: len(b.container), default=None)
            if block is None or getattr(module, attribute, None) != block.index:
                raise LayoutError(
                    f"{type(module).__name__}.growkit_sizes says that {attribute} = {getattr(module, attribute, None)} "
                    f"is the number of its block, which is {'no block' if block is None else block.index}",
                    "a number of a block, from 0, of a module in a ModuleList or Sequential",
                    f"mend growkit_sizes of {type(module).__name__}",
                )
            inner = path.removeprefix(_join(block.container, str(block.index))).removeprefix(".")
            yield Index(block.container, block.index, _join(inner, attribute))


def tried_counts(
    contents: Contents,
    state: State,
    inputs: Any,
    call: CallModel | None,
    blocks: Collection[Block],
    known: Collection[str],
    numeric: Collection[str],
    before: Sequence[str],
    lists: ListsPerBlock,
) -> Iterator[Count]:
    """Every other int, in a module around a container of residual blocks, that equals their number, and `lists`.

    `known`: paths of ints that need no try; `numeric`: of those that the run used as sizes or numbers; `before`: paths
    of modules in the order of their calls in the run. Also ints of plain objects that such a module keeps, as of a
    config. Most of them are not read, so that many are tried at once; those that the code names apart.
    """
    model = contents.model
    around: dict[str, list[tuple[str, _Place]]] = {}
    for container in dict.fromkeys(b.container for b in blocks if b.residual and not b.obstacle):
        length = len(model.get_submodule(container))  # type: ignore[arg-type]
        around[container] = [
            (path, place)
            for path, place in _ints_around(model, container)
            if place.store[place.attribute] == length and path not in known
        ]
    places = list({place.key: place for found in around.values() for _, place in found}.values())
    after: dict[tuple[int, str], list[str] | None] = {}
    names = [_names_in_code(model.get_submodule(path)) for path in dict.fromkeys(chain(*map(_above, around)))]
    read, unread = ([p for p in places if any(p.names <= found for found in names) is r] for r in (True, False))
    for together in (unread, []) if lists.unknown else ():
        with lists.watched():
            called = _called(contents, state, inputs, call, together)
        if called == before:  # what was changed changes nothing: the lists are read as ever
            after |= {place.key: called for place in together}
            break
        lists.forget()
    waiting = [read, unread]
    while waiting:
        together = [place for place in waiting.pop() if place.key not in after]
        if not together:
            continue
        called = _called(contents, state, inputs, call, together)
        if called != before and len(together) > 1:
            half = len(together) // 2
            waiting += [together[:half], together[half:]]
        else:
            after |= {place.key: called for place in together}
    for container, found in around.items():
        length = len(model.get_submodule(container))  # type: ignore[arg-type]
        last = _join(container, f"{length - 1}.")
        without = [path for path in before if not f"{path}.".startswith(last)]
        for path, place in found:
            called = after[place.key]
            counts = called == without and path not in numeric
            yield Count(path, length, container, "unused" if called == before else "count" if counts else "unclear")
    yield from lists.found()


@dataclass(frozen=True)
class _Place:
    """An int that may count blocks, in the dict that keeps it."""

    store: dict[str, Any]
    attribute: str
    names: frozenset[str]
    """The names by which the module around reads it: of the attribute, and of the object that keeps it."""

    @property
    def key(self) -> tuple[int, str]:
        """Equal for the same place by another path."""
        return id(self.store), self.attribute


def _declared(module: nn.Module) -> Mapping[str, str]:
    return getattr(type(module), "growkit_sizes", {})


def _ints_around(model: nn.Module, container: str) -> Iterator[tuple[str, _Place]]:
    """The ints of the modules around a container, and of plain objects in them, with their paths."""
    for path in _above(container):
        owner = vars(model.get_submodule(path))
        stores = [(path, owner)]
        for name, value in owner.items():
            if not name.startswith("_") and not isinstance(value, nn.Module | Tensor | type) and not callable(value):
                stores.append((_join(path, name), getattr(value, "__dict__", {})))
        for place, store in stores:
            for attribute, value in list(store.items()):
                if type(value) is int:
                    names_of = frozenset({attribute, place.removeprefix(path).removeprefix(".")} - {""})
                    yield _join(place, attribute), _Place(store, attribute, names_of)


def _above(container: str) -> list[str]:
    """The paths of the modules around a container."""
    names = container.split(".") if container else []
    return [".".join(names[:depth]) for depth in range(len(names))]


def _names_in_code(module: nn.Module) -> frozenset[str]:
    """The names that the forward pass of a module is written with."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return frozenset(code.co_names if code else ())


def _called(
    contents: Contents,
    state: State,
    inputs: Any,
    call: CallModel | None,
    changed: Sequence[_Place],
) -> list[str] | None:
    """The modules in the order of their calls, with some ints one less; None if the model raises."""
    paths: list[str] = []
    values = [place.store[place.attribute] for place in changed]
    path_of = {id(module): path for path, module in contents.modules.items()}

    def enter(module: nn.Module, inputs: Any) -> None:
        if id(module) in path_of:
            paths.append(path_of[id(module)])

    with state.untouched(), torch.no_grad():
        hook = module_hooks.register_module_forward_pre_hook(enter)
        try:
            for place in changed:
                place.store[place.attribute] -= 1
            run_model(contents.model, inputs, call)
        except InputsError:
            return None
        finally:
            for place, value in zip(changed, values, strict=True):
                place.store[place.attribute] = value
            hook.remove()
    return paths


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
