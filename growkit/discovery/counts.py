"""Ints that count the blocks of a container, or number them.

What an int does is found by trying: with the count one less, a model that goes by it runs without the last block, and
otherwise as before. `growkit_sizes` of a class says it without trying.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.axis import Block, Count, Index
from growkit.discovery.inputs import CallModel, run_model
from growkit.discovery.untouched import untouched
from growkit.errors import InputsError, LayoutError

_LENGTH = re.compile(r"len\((?P<container>[\w.]*)\)")
_LIKELY = re.compile("layer|block|depth|stage")
INDEX = "index"


def is_count(place: str) -> bool:
    """Whether an entry of `growkit_sizes` speaks of blocks: `"len(path.of.container)"` or `"index"`."""
    return place == INDEX or _LENGTH.fullmatch(place) is not None


def declared_counts(model: nn.Module) -> Iterator[Count]:
    """The counts that `growkit_sizes` names: `{"num_layers": "len(layers)"}`.

    Raises:
        LayoutError: an entry that is not the length of what it names.
    """
    for path, module in model.named_modules():
        for attribute, place in _declared(module).items():
            match = _LENGTH.fullmatch(place)
            if match is None:
                continue
            container = _join(path, match["container"])
            found = dict(model.named_modules()).get(container)
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


def declared_indices(model: nn.Module, blocks: Collection[Block]) -> Iterator[Index]:
    """The numbers of blocks that `growkit_sizes` names: `{"layer_idx": "index"}`, in or below a block.

    Raises:
        LayoutError: an entry that is not the number of its block.
    """
    for path, module in model.named_modules():
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
    model: nn.Module,
    inputs: Any,
    call: CallModel | None,
    blocks: Collection[Block],
    known: Collection[str],
    numeric: Collection[str],
    before: Sequence[str],
) -> Iterator[Count]:
    """Every other int, in a module around a container of residual blocks, that equals their number.

    `known`: paths of ints that need no try; `numeric`: of those that the run used as sizes or numbers; `before`: paths
    of modules in the order of their calls in the run. Also ints of plain objects that such a module keeps, as of a
    config. Names that speak of layers are tried one by one; the others, of which most are not read, together first.
    """
    for container in dict.fromkeys(b.container for b in blocks if b.residual and not b.obstacle):
        length = len(model.get_submodule(container))  # type: ignore[arg-type]
        places: dict[tuple[int, str], _Place] = {}
        for path, attribute, store in _ints_around(model, container):
            if store[attribute] == length and path not in known:
                places.setdefault((id(store), attribute), _Place(store, attribute, [])).paths.append(path)
        last = _join(container, str(length - 1))
        without = [p for p in before if not f"{p}.".startswith(last + ".")]
        likely = [place for place in places.values() if _LIKELY.search(place.attribute)]
        others = [place for place in places.values() if not _LIKELY.search(place.attribute)]
        waiting = [[place] for place in likely] + ([others] if others else [])
        while waiting:
            together = waiting.pop(0)
            after = _called(model, inputs, call, [(p.store, p.attribute, length - 1) for p in together])
            if after != before and len(together) > 1:
                half = len(together) // 2
                waiting += [together[:half], together[half:]]
                continue
            for place in together:
                numbers = bool(set(place.paths) & set(numeric))
                verdict = "unused" if after == before else "count" if after == without and not numbers else "unclear"
                yield from (Count(path, length, container, verdict) for path in place.paths)


@dataclass(frozen=True)
class _Place:
    """An int that may count blocks; `paths`: of all modules that keep its store."""

    store: dict[str, Any]
    attribute: str
    paths: list[str]


def _declared(module: nn.Module) -> Mapping[str, str]:
    return getattr(type(module), "growkit_sizes", {})


def _ints_around(model: nn.Module, container: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, attribute and store of the ints of the modules around a container, and of plain objects in them."""
    names = container.split(".") if container else []
    for depth in range(len(names)):
        path = ".".join(names[:depth])
        owner = vars(model.get_submodule(path))
        stores = [(path, owner)]
        for name, value in owner.items():
            if not name.startswith("_") and not isinstance(value, nn.Module | Tensor | type) and not callable(value):
                stores.append((_join(path, name), getattr(value, "__dict__", {})))
        for place, store in stores:
            for attribute, value in list(store.items()):
                if type(value) is int:
                    yield _join(place, attribute), attribute, store


def _called(
    model: nn.Module, inputs: Any, call: CallModel | None, changes: Sequence[tuple[dict[str, Any], str, int]]
) -> list[str] | None:
    """The modules in the order of their calls, with some ints changed; None if the model raises."""
    paths: list[str] = []
    with untouched(model), torch.no_grad():
        hooks = [
            module.register_forward_pre_hook(lambda _module, _inputs, path=path: paths.append(path))
            for path, module in model.named_modules()
        ]
        before = [(store, attribute, store[attribute]) for store, attribute, _ in changes]
        try:
            for store, attribute, value in changes:
                store[attribute] = value
            run_model(model, inputs, call)
        except InputsError:
            return None
        finally:
            for store, attribute, value in before:
                store[attribute] = value
            for hook in hooks:
                hook.remove()
    return paths


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
