"""Floats that modules keep, such as the eps of a norm, and the ops that were given them.

Every float is an object of its own during the run, so that it is known in the arguments of a torch function: a number
of the same value in the code is another one. Not seen are uses that Python computes with, such as `2 * self.eps`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

_NOTHING = nullcontext()


class Floats:
    """The floats of a model, by the paths of attributes, and the numbers of the ops that were given each."""

    def __init__(self) -> None:
        self._kept: dict[int, str] = {}
        self._values: dict[str, float] = {}
        self._ops: dict[str, dict[int, None]] = defaultdict(dict)
        self._lost: set[str] = set()
        self._given: list[str] = []
        self._met: set[str] = set()

    def own(self, modules: Mapping[str, nn.Module]) -> None:
        """Makes every float in an attribute of modules an object of its own; the caller puts the old ones back."""
        for path, module in modules.items():
            if isinstance(module, torch.jit.ScriptModule):  # its attributes are not Python's
                continue
            attributes = vars(module)
            for name in [name for name, value in attributes.items() if type(value) is float]:
                attributes[name] *= 1.0
                place = f"{path}.{name}" if path else name
                self._kept[id(attributes[name])], self._values[place] = place, attributes[name]

    def given(self, arguments: Iterable[Any]) -> AbstractContextManager[None]:
        """Inside runs a torch function that was given these; its ops are noted by `op`."""
        paths = [self._kept[id(x)] for x in arguments if id(x) in self._kept]
        return self._running(paths) if paths or self._given else _NOTHING

    @contextmanager
    def _running(self, paths: list[str]) -> Iterator[None]:
        outer, self._given, self._met = (self._given, self._met), paths, set()
        try:
            yield
            self._lost |= {*self._given} - self._met
        finally:
            self._given, self._met = outer

    def op(self, number: int, arguments: Iterable[Any]) -> None:
        """Notes the floats of the function that runs which an op is given."""
        if self._given:
            floats = {x for x in arguments if type(x) is float}
            for path in self._given:
                if self._values[path] in floats:
                    self._met.add(path)
                    self._ops[path][number] = None

    def value(self, path: str) -> float:
        """The float at a path."""
        return self._values[path]

    def place(self, number: int, value: float) -> str | None:
        """The path of the float of this value that an op was given; None if it is none of a module, or may be two."""
        found = [path for path, numbers in self._ops.items() if number in numbers and self.value(path) == value]
        return found[0] if len(found) == 1 else None

    def only(self, path: str, uses: int) -> bool:
        """Whether so many ops were given a float, and nothing else was."""
        return len(self._ops[path]) == uses and path not in self._lost
