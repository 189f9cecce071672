"""`math.sqrt` of sizes, wherever it is called from."""

from __future__ import annotations

import math
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

_INSTALLED = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
    str(Path(__file__).parents[1]),
)
_WITHOUT_FILES = frozenset({*sys.builtin_module_names, "torch"})
"""Packages with modules that are written in C."""


@contextmanager
def followed_square_roots(root: Callable[[Any], Any]) -> Iterator[None]:
    """Inside, `math.sqrt` gives what `root` gives, unless that is None; also where it was imported by its name."""
    own = math.sqrt

    def sqrt(value: Any, /) -> Any:
        found = root(value)
        return own(value) if found is None else found

    holders = [names for names in _modules.names() if names.get("sqrt") is own]
    for names in holders:
        names["sqrt"] = sqrt
    try:
        yield
    finally:
        for names in holders:
            names["sqrt"] = own


class _Modules:
    """Modules that may have imported it: all but installed ones, of which there are thousands, that have not."""

    def __init__(self) -> None:
        self._newest = (0, "")
        """How many there were, and the last one, when they were gone through."""
        self.without: set[str] = set()
        self._others: list[str] = []

    def names(self) -> Iterator[dict[str, Any]]:
        """What each of them names."""
        newest = (len(sys.modules), next(reversed(sys.modules)))
        if newest != self._newest:
            left = [name for name in list(sys.modules) if name not in self.without]
            self.without.update(filter(_is_without, left))
            self._newest, self._others = newest, [name for name in left if name not in self.without]
        for name in self._others:
            module = sys.modules.get(name)
            if type(module) is ModuleType:  # others may be ones that are loaded when they are asked for anything
                yield module.__dict__


def _is_without(name: str) -> bool:
    """Whether a module is installed and has not imported it: it will not."""
    module = sys.modules.get(name)
    names = module.__dict__ if type(module) is ModuleType else {}
    installed = str(names.get("__file__")).startswith(_INSTALLED) or name.partition(".")[0] in _WITHOUT_FILES
    return installed and names.get("sqrt") is not math.sqrt


_modules = _Modules()
