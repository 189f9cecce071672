"""Arguments of an Engine and of its `fit` that are refused at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

from growkit.errors import EngineError
from growkit.train.runtime import Runtime
from growkit.train.settings import Settings


def check_collections(lists: Mapping[str, object], services: object) -> None:
    """Refuses what is no list, by its name, and services that are no dict.

    Raises: EngineError.
    """
    for name, given in lists.items():
        if not isinstance(given, Sequence):
            raise EngineError(f"{name}={given!r}", "a list, also of one", f"write {name}=[...]")
    if services is not None and not isinstance(services, Mapping):
        raise EngineError(
            f"services of type {type(services).__name__}",
            "a dict from the name that callbacks ask for to the service",
            "write services={'growth': growkit.Growth(...)}",
        )


def check_kinds(settings: object, runtime: object, run_dir: object) -> None:
    """Refuses settings, a runtime and a folder of another type.

    Raises: EngineError.
    """
    for name, given, kind in (("settings", settings, Settings), ("runtime", runtime, Runtime)):
        if given is not None and not isinstance(given, kind):
            raise EngineError(
                f"{name} of type {type(given).__name__}",
                f"a growkit.train.{kind.__name__}, or None",
                f"write {name}={kind.__name__}(...)",
            )
    if run_dir is not None and not isinstance(run_dir, str | PathLike):
        raise EngineError(
            f"run_dir of type {type(run_dir).__name__}", "the path of a folder, or None", 'write run_dir="runs/first"'
        )


def check_limits(epochs: int | None, max_steps: int | None) -> None:
    """Refuses limits that are no whole numbers, and none at all.

    Raises: EngineError.
    """
    for name, value in (("epochs", epochs), ("max_steps", max_steps)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise EngineError(f"fit({name}={value!r})", "a whole number >= 0", "give an int")
    if epochs is None and max_steps is None:
        raise EngineError("fit() without a limit", "epochs, max_steps, or both", "write engine.fit(epochs=20)")
