"""The settings of a script with those of the command line, and where each comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from growkit.errors import SettingsError
from growkit.train import Settings
from growkit.train.setting_names import unknown_setting
from growkit.train.settings import OWN

SCRIPT, COMMAND_LINE, DEFAULT = "script", "command line", "default"
"""Where a setting may come from."""


def effective_settings(given: object, assigned: Iterable[str]) -> tuple[Settings, dict[str, str]]:
    """The settings in force, and where each of them, and each of the user's own keys, comes from.

    given: what the script calls `settings`: a dict, a Settings, or None.
    assigned: `key=value` of the command line; values are those of Python, and texts otherwise.

    Raises: SettingsError for unknown keys, wrong values, and values that contradict those of the script.
    """
    settings = _of_script(given)
    untouched = Settings()
    explicit = set(given) if isinstance(given, Mapping) else set()
    sources = {
        name: SCRIPT if name in explicit or getattr(settings, name) != getattr(untouched, name) else DEFAULT
        for name in OWN
    } | dict.fromkeys(settings.user, SCRIPT)
    values: dict[str, Any] = {}
    for text in assigned:
        name, value = _assignment(text, list(sources))
        said = settings.user[name] if name in settings.user else getattr(settings, name)
        if sources[name] == SCRIPT and name not in settings.user and said != value:
            raise SettingsError(
                f"--set {text}, and the script sets {name} to {said!r}",
                "one value",
                f"remove {name} from the settings of the script, or leave --set {name} out",
            )
        if name in values and values[name] != value:
            raise SettingsError(f"--set {name} with {values[name]!r} and with {value!r}", "one value", "give it once")
        values[name] = value
        sources[name] = COMMAND_LINE
    own = {name: value for name, value in values.items() if name in settings.user}
    others = {name: value for name, value in values.items() if name not in own}
    return replace(settings, **others, user={**settings.user, **own}), sources


def _of_script(given: object) -> Settings:
    if given is None or isinstance(given, Settings):
        return given or Settings()
    if not isinstance(given, Mapping):
        raise SettingsError(
            f"settings of type {type(given).__name__}", "a dict, or a growkit.train.Settings", "write settings = {...}"
        )
    return Settings(**given)


def _assignment(text: str, known: list[str]) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(f"--set {text}", "key=value", "write --set learning_rate=3e-4")
    if name not in known:
        raise unknown_setting(name, known)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
