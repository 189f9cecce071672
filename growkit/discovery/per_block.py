"""What a model keeps for each block of a container: lists with an entry for each, and the number of each block."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn

from growkit.axes.axis import Block, Count, Index
from growkit.nn.contents import Contents

_NUMBERED = re.compile(r"idx|index|number|(layer|block|depth)(_?(id|no|num|nr))?$")
"""Names of ints that number blocks, where there are so few that others could be 0 and 1."""
_FEW = 2


class ListsPerBlock:
    """Finds the lists and tuples of which a run takes one entry for each block of a container.

    What is taken, out of those that have the length, is noted in a run that is watched: entry i between the end of
    block i - 1 and that of block i, for each i, and no other meanwhile.
    """

    def __init__(self, contents: Contents, blocks: Collection[Block]):
        self._model, self._containers = contents.model, _containers(blocks)
        lengths = {*self._containers.values()}
        self._places = [
            (path, store, name, value)
            for path, store in (_stores(contents) if lengths else ())
            for name, value in store.items()
            if type(value) in (list, tuple) and len(value) in lengths
        ]
        self._taken: dict[int, list[tuple[int, dict[str, int]]]] | None = None

    @property
    def unknown(self) -> bool:
        """Whether there are lists for which a run must be watched."""
        return bool(self._places) and self._taken is None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes what the run inside takes."""
        now = dict.fromkeys(self._containers, 0)  # 2 i before block i, and 2 i + 1 inside
        taken: dict[int, list[tuple[int, dict[str, int]]]] = {id(value): [] for *_, value in self._places}
        self._taken = taken

        def note(key: int, number: int) -> None:
            taken[key].append((number, dict(now)))

        def pass_(container: str, time: int, *_: Any) -> None:
            now[container] = time

        hooks = []
        for container in self._containers:
            for number, block in enumerate(self._model.get_submodule(container).children()):
                hooks.append(block.register_forward_pre_hook(partial(pass_, container, 2 * number + 1)))
                hooks.append(block.register_forward_hook(partial(pass_, container, 2 * number + 2)))
        try:
            for _, store, name, value in self._places:
                kind = _WatchedList if type(value) is list else _WatchedTuple
                store[name] = kind.of(value, range(len(value)), partial(note, id(value)))
            yield
        finally:
            for _, store, name, value in self._places:
                store[name] = value
            for hook in hooks:
                hook.remove()

    def forget(self) -> None:
        """Says that the run that was watched is not what the model does."""
        self._taken = None

    def found(self) -> Iterator[Count]:
        """The lists, by the run that was watched."""
        for path, _, name, value in self._places:
            for container, length in self._containers.items():
                taken = [(n, at[container]) for n, at in (self._taken or {}).get(id(value), ())]
                if length == len(value) and _one_each(length, taken):
                    yield Count(f"{path}.{name}" if path else name, length, container, "list")


def indices_of(model: nn.Module, blocks: Collection[Block], known: Collection[str]) -> Iterator[Index]:
    """Ints that are the number of their block, in every block of a container; `known`: paths of ints that are not."""
    for container, length in _containers(blocks).items():
        found: list[dict[str, int]] = []
        for block in model.get_submodule(container).children():
            ints: dict[str, int] = {}
            for path, module in block.named_modules():
                prefix = f"{path}." if path else ""
                ints |= {prefix + name: value for name, value in vars(module).items() if type(value) is int}
            found.append(ints)
        for attribute in found[0]:
            paths = [f"{container}.{i}.{attribute}".removeprefix(".") for i in range(length)]
            likely = length > _FEW or _NUMBERED.search(attribute.rpartition(".")[2])
            if likely and all(ints.get(attribute) == i for i, ints in enumerate(found)) and not {*paths} & {*known}:
                yield from (Index(container, i, attribute) for i in range(length))


def _containers(blocks: Collection[Block]) -> dict[str, int]:
    """Containers of which all children are blocks that a growth may copy, and their lengths."""
    found: dict[str, int] = {}
    for block in blocks:
        if block.residual and not block.obstacle:
            found.setdefault(block.container, 0)
    return {container: sum(block.container == container for block in blocks) for container in found}


def _stores(contents: Contents) -> Iterator[tuple[str, dict[Any, Any]]]:
    """The attributes of modules and of the plain objects that they keep, each once, with the path.

    Not those of torch's own layers: sizes of kernels and shapes are no lists of blocks.
    """
    for path, module in contents.modules.items():
        if module._modules or not type(module).__module__.startswith("torch.nn."):
            yield path, vars(module)
    for path, holder in contents.holders:
        if hasattr(holder, "__dict__"):
            yield path, vars(holder)


def _one_each(length: int, taken: Collection[tuple[int, int]]) -> bool:
    """Whether there is one entry for each block; `taken`: (entry, time), what is before and after all blocks apart."""
    inside = [(number, time) for number, time in taken if 0 < time < 2 * length or number == time == 0]
    return {number for number, _ in inside} == {*range(length)} and all(time // 2 == n for n, time in inside)


class _Watched:
    """A sequence that says which of its entries are taken out."""

    numbers: range
    note: Callable[[int], None]

    @classmethod
    def of(cls, values: Any, numbers: range, note: Callable[[int], None]) -> Any:
        watched = cls(values)  # type: ignore[call-arg]
        watched.numbers, watched.note = numbers, note
        return watched

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)  # type: ignore[misc]
        if isinstance(key, slice):
            return type(self).of(found, self.numbers[key], self.note)
        self.note(self.numbers[key])
        return found

    def __iter__(self) -> Iterator[Any]:
        for number, value in zip(self.numbers, super().__iter__(), strict=True):  # type: ignore[misc]
            self.note(number)
            yield value


class _WatchedList(_Watched, list):
    """A list."""


class _WatchedTuple(_Watched, tuple):
    """A tuple."""
