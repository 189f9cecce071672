"""Arguments of an Engine and of its `fit` that are refused at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from rich.console import Console

from growkit.errors import EngineError
from growkit.train.arguments import check_kind
from growkit.train.runtime import Runtime
from growkit.train.settings import Settings

_PATH = (str, PathLike)
_KINDS: dict[str, tuple[Any, str, str]] = {
    "settings": (Settings, "a growkit.train.Settings", "write settings=Settings(...)"),
    "runtime": (Runtime, "a growkit.train.Runtime", "write runtime=Runtime(...)"),
    "services": (
        Mapping,
        "a dict from the name that callbacks ask for to the service",
        "write services={'growth': growkit.Growth(...)}",
    ),
    "stateful": (Mapping, "a dict from a name to an object with a state", "write stateful={'scores': scores}"),
    "run_dir": (_PATH, "the path of a folder", 'write run_dir="runs/first"'),
    "resume": (_PATH, "'auto', or the path of a checkpoint or a run", 'write resume="auto"'),
    "flow": (Callable, "a function that makes a flow", "write flow=MyFlow"),
    "console": (Console, "a rich.console.Console", "write console=Console(...)"),
}


def check_kinds(**given: object) -> None:
    """Refuses arguments of another type than theirs.

    Raises: EngineError.
    """
    for name, value in given.items():
        check_kind(name, value, *_KINDS[name])


def check_lists(loops: object, **others: object) -> None:
    """Refuses what is no list, by its name, and loops that nothing can make.

    Raises: EngineError.
    """
    for name, given in {"loops": loops, **others}.items():
        if not isinstance(given, Sequence):
            raise EngineError(f"{name}={given!r}", "a list, also of one", f"write {name}=[...]")
    assert isinstance(loops, Sequence)
    for make in loops:
        check_kind("a loop", make, Callable, "a function that makes a loop", "write loops=[MyLoop]")


def check_limits(epochs: int | None, max_steps: int | None) -> None:
    """Refuses limits that are no whole numbers, and none at all.

    Raises: EngineError.
    """
    for name, value in (("epochs", epochs), ("max_steps", max_steps)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise EngineError(f"fit({name}={value!r})", "a whole number >= 0", "give an int")
    if epochs is None and max_steps is None:
        raise EngineError("fit() without a limit", "epochs, max_steps, or both", "write engine.fit(epochs=20)")
