"""A training script: a Python file that says by module-level names what to train, as a RETURNN config does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from growkit.errors import EngineError
from growkit.integrations.engine import Growth
from growkit.train import Engine, Settings
from growkit.train.settings import OWN

KNOWN: Mapping[str, str] = {
    "get_model": "a function (*, epoch, step) that returns the model; or `model`, the model itself",
    "train_step": "a function of a batch, (model, batch), that returns the loss",
    "train_data": "an iterable of batches, or a function (*, epoch, batch_size) that returns one",
    "optimizers": "an optimizer, a dict of them by name, or a function of the model that returns either",
    "model": "in place of get_model: the model itself",
    "settings": "a dict of settings, or a growkit.train.Settings",
    "callbacks": "a list of callbacks",
    "train_step_callback": "a function that is called before each window",
    "train_epoch_callback": "a function that is called at the start of each epoch",
    "eval_step": "a function of a batch, (model, batch), that returns numbers",
    "eval_data": "as train_data, for evaluations",
    "services": "a dict of services by name",
    "example_inputs": "inputs of the model: callbacks and train steps get a growkit.Growth as `growth`",
    "runtime": "a growkit.train.Runtime",
    "loops": "a list of loops of your own",
    "flow": "a flow of your own",
    "epochs": "how many epochs to train, in all",
    "max_steps": "how many batches to train, in all",
    "run_dir": "the folder for metrics.jsonl and checkpoints",
    "stateful": "objects whose state is saved along, by name",
}
"""The names that a script may define, and what each is."""

REQUIRED = ("get_model", "train_step", "train_data", "optimizers")
TO_THE_ENGINE = ("eval_step", "eval_data", "runtime", "loops", "flow", "stateful")
MODULE = "growkit_script"
"""The name of the script as a module."""

_SIMILARITY = 0.8  # Of spellings: `optimiser` is close to `optimizers`, `steps` is not to `max_steps`.


def load_script(path: Path) -> dict[str, Any]:
    """Runs the script; gives the names of `KNOWN` that it defines.

    Its folder is where it imports from first, as with `python script.py`; its name is not `__main__`.

    Raises:
        EngineError: no such file; names that are missing, that look misspelt, or that exclude each other.
        Exception: whatever the script raises.
    """
    if not path.is_file():
        raise EngineError(f"the script {path}", "a Python file", "give the path of a file that is there")
    spec = spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise EngineError(f"the script {path}", "a Python file, *.py", "give it this ending")
    module = module_from_spec(spec)
    sys.modules[MODULE] = module  # dataclasses and pickle look a class up in its module
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    defined = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    _check(path, defined)
    return {name: value for name, value in defined.items() if name in KNOWN}


def _check(path: Path, defined: Mapping[str, object]) -> None:
    missing = [name for name in REQUIRED if name not in defined and not (name == "get_model" and "model" in defined)]
    misspelt = {
        name: close[0]
        for name, value in defined.items()
        if name not in KNOWN and not isinstance(value, ModuleType) and (close := _close(name, defined))
    }
    if missing:
        listed = "".join(f"\n    {name}: {KNOWN[name]}" for name in missing)
        near = "".join(f"; {name!r} may be meant as {meant!r}" for name, meant in misspelt.items())
        raise EngineError(
            f"{path} does not define {', '.join(missing)}{near}",
            f"a script that defines them:{listed}",
            "define them at the top level of the script",
        )
    if misspelt:
        near = ", ".join(f"{name!r}, close to {meant!r}" for name, meant in misspelt.items())
        raise EngineError(
            f"{path} defines {near}, which it does not define",
            f"the names {', '.join(KNOWN)}, and names of your own that are unlike them",
            "correct it; or begin the name with _ if it is your own",
        )
    if "get_model" in defined and "model" in defined:
        raise EngineError(f"{path} defines model and get_model", "one of them", "remove one, or write _model")
    if "example_inputs" in defined and "growth" in dict(defined.get("services") or {}):  # type: ignore[call-overload]
        raise EngineError(
            f"{path} defines example_inputs, and services with a 'growth'",
            "one of them",
            "give the inputs to that service, and remove example_inputs",
        )
    if settings := [name for name in OWN if name in defined and not _is_in_settings(name, defined)]:
        raise EngineError(
            f"{path} defines {', '.join(settings)} at the top level, which sets nothing, beside other settings",
            "settings in one place: the dict, or Settings, called `settings`",
            f"write settings = {{{settings[0]!r}: {defined[settings[0]]!r}, ...}}; begin names of your own with _",
        )


def _close(name: str, defined: Mapping[str, object]) -> list[str]:
    """A name that is not defined and that this one may be meant as."""
    taken = {"model", "get_model"} if "model" in defined or "get_model" in defined else set()
    return get_close_matches(
        name, [known for known in KNOWN if known not in defined and known not in taken], 1, _SIMILARITY
    )


def _is_in_settings(name: str, defined: Mapping[str, object]) -> bool:
    """Whether a top-level name only repeats what the settings say."""
    settings = defined.get("settings")
    said = settings.get(name) if isinstance(settings, Mapping) else getattr(settings, name, None)
    return said is not None and (said is defined[name] or said == defined[name])


def make_engine(
    names: Mapping[str, Any], settings: Settings, *, run_dir: Path | None, console: Console | None = None
) -> Engine:
    """The engine of a script.

    Raises: EngineError, SettingsError.
    """
    growth = {"growth": Growth(names["example_inputs"])} if "example_inputs" in names else {}
    step_callback = [names["train_step_callback"]] if "train_step_callback" in names else []
    return Engine(
        names["get_model"] if "get_model" in names else names["model"],
        names["train_step"],
        names["train_data"],
        optimizers=names["optimizers"],
        settings=settings,
        callbacks=[*names.get("callbacks", ()), *step_callback],
        epoch_callbacks=[names["train_epoch_callback"]] if "train_epoch_callback" in names else [],
        services={**(names.get("services") or {}), **growth},
        run_dir=run_dir,
        console=console,
        **{name: names[name] for name in TO_THE_ENGINE if name in names},
    )
