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
_without: set[str] = set()
"""Names of installed modules, thousands where there are large libraries, that have not imported it: they will not."""


@contextmanager
def followed_square_roots(root: Callable[[Any], Any]) -> Iterator[None]:
    """Inside, `math.sqrt` gives what `root` gives, unless that is None; also where it was imported by its name."""
    own = math.sqrt

    def sqrt(value: Any, /) -> Any:
        found = root(value)
        return own(value) if found is None else found

    holders = [names for names in _names_of_modules() if names.get("sqrt") is own]
    for names in holders:
        names["sqrt"] = sqrt
    try:
        yield
    finally:
        for names in holders:
            names["sqrt"] = own


def _names_of_modules() -> Iterator[dict[str, Any]]:
    """What modules name that may have imported it: all but installed ones that are known not to have."""
    for name in [name for name in list(sys.modules) if name not in _without]:
        module = sys.modules.get(name)
        if type(module) is not ModuleType:  # others may be ones that are loaded when they are asked for anything
            continue
        names = module.__dict__
        if "sqrt" in names:
            yield names
        elif str(names.get("__file__")).startswith(_INSTALLED):
            _without.add(name)
