"""Changing settings while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from growkit.errors import SettingsError
from growkit.train.setting_names import TRAIN_DATA, unknown_setting
from growkit.train.setting_values import ChangingSetting
from growkit.train.settings import FIXED, FIXED_ON_OR_OFF, MAY_CHANGE, OWN, Settings


class _Reset(Enum):
    RESET = "RESET"

    def __repr__(self) -> str:
        return "RESET"


RESET = _Reset.RESET
"""As the value of an update: takes earlier updates of the setting away, so that it is again as it was given."""


@dataclass(frozen=True)
class SettingsInForce:
    """The settings as they were given, and the updates since.

    Raises: SettingsError, also where updates of a checkpoint do not fit the settings given now.
    """

    given: Settings
    updates: Mapping[str, object] = field(default_factory=dict)
    """Those in force, constants by key: for a checkpoint. Where a run goes on they win over `given`."""

    def __post_init__(self) -> None:
        _check_keys(self.given, self.updates)
        if TRAIN_DATA in self.updates:
            raise SettingsError("train_data among the updates in force", "updates of settings", "leave it out")
        for key, value in self.updates.items():
            _check_update(self.given, key, value)
        object.__setattr__(self, "updates", dict(self.updates))
        object.__setattr__(self, "_settings", self._merged())

    @property
    def settings(self) -> Settings:
        """The settings with all updates; those that change by themselves still do."""
        settings: Settings = self.__dict__["_settings"]
        return settings

    def at(self, *, epoch: int, step: int, updates: int) -> Settings:
        """The settings at a point of the run, with plain values: `Settings.at`."""
        return self.settings.at(epoch=epoch, step=step, updates=updates)

    def updated(self, updates: Mapping[str, object]) -> SettingsInForce:
        """With further updates, each in place of an earlier one of its key; one wrong update refuses all.

        updates: constants by key, or RESET. The keys are those of `Settings`, those that the user declared in
            `Settings(user={...})`, and `train_data`, which is no setting and is left to the caller. For
            optimizers with names, `learning_rate` is a dict of those to change.

        Raises: SettingsError for an unknown key, a wrong value, an update of what is fixed, and for an
            update beside a setting that changes by itself.
        """
        _check_keys(self.given, updates)
        changed: dict[str, Any] = dict(self.updates)
        for key, value in updates.items():
            if key == TRAIN_DATA:
                continue
            if key == "learning_rate" and value is RESET and isinstance(changed.get(key), Mapping):
                value = dict.fromkeys(changed[key], RESET)
            _check_update(self.given, key, value)
            if value is RESET:
                changed.pop(key, None)
            elif key == "learning_rate":
                _updated_rates(self.settings.learning_rate, value)
                changed[key] = _updated_rates(changed.get(key), value)
                if changed[key] == {}:
                    del changed[key]
            else:
                changed[key] = value
        return SettingsInForce(self.given, changed)

    def _merged(self) -> Settings:
        own = {key: value for key, value in self.updates.items() if key in OWN}
        if "learning_rate" in own:
            own["learning_rate"] = _updated_rates(self.given.learning_rate, own["learning_rate"])
        user = {key: value for key, value in self.updates.items() if key in self.given.user}
        return replace(self.given, **own, user={**self.given.user, **user})  # type: ignore[arg-type]


def _check_keys(given: Settings, updates: Mapping[str, object]) -> None:
    known = [*OWN, TRAIN_DATA, *given.user]
    for key in updates:
        if key not in known:
            raise unknown_setting(key, known)


def _check_update(given: Settings, key: str, value: object) -> None:
    """Whether a setting may be updated to a value of this kind."""
    was = given.user[key] if key in given.user else getattr(given, key)
    if key in FIXED:
        raise SettingsError(
            f"an update of {key}",
            "updates of settings that a run can change",
            f"write Settings({key}=...) for a new Engine",
        )
    if key in FIXED_ON_OR_OFF and value is not RESET and bool(was) != bool(value):
        raise SettingsError(
            f"an update of {key} from {was!r} to {value!r}",
            "another value where Settings gives one, none where it gives none",
            f"write Settings({key}=...) for a new Engine",
        )
    parts: list[tuple[str, object, object]] = [(key, was, value)]
    if key == "learning_rate" and isinstance(value, Mapping):
        rates = was if isinstance(was, Mapping) else {}
        parts = [(f"{key}[{name!r}]", rates.get(name), rate) for name, rate in value.items()]
    elif key == "learning_rate" and isinstance(was, Mapping) and value is RESET:
        parts = []
    for name, one, new in parts:
        _check_constant(name, one, new, own=key in MAY_CHANGE)


def _check_constant(name: str, was: object, value: object, *, own: bool) -> None:
    if isinstance(was, ChangingSetting) and value is not RESET:
        raise SettingsError(
            f"an update of {name} to {value!r}, beside {name}={was!r} in Settings",
            "a setting that changes by itself, or updates of it",
            "take one of them away",
        )
    if isinstance(value, ChangingSetting) or (own and callable(value)):
        raise SettingsError(
            f"an update of {name} to {value!r}", "constants, and RESET", f"write Settings({name.partition('[')[0]}=...)"
        )
    if name.startswith("learning_rate") and value is None:
        raise SettingsError(
            f"an update of {name} to None", "a finite number >= 0", "leave the key out to keep the rate"
        )
    if name.startswith("learning_rate") and value is RESET and was is None:
        raise SettingsError(
            f"an update of {name} to RESET", "RESET where Settings gives a rate to go back to", "update it to a number"
        )


def _updated_rates(rates: object, value: object) -> object:
    """A dict changes the rates that it names and leaves the others; one rate for all replaces one for all."""
    if rates is not None and isinstance(rates, Mapping) != isinstance(value, Mapping):
        raise SettingsError(
            f"an update of learning_rate to {value!r}, which is {rates!r}",
            "a dict by the names of optimizers where it is a dict, else one rate",
            "write the update, or Settings(learning_rate=...), in the form of the other",
        )
    if not isinstance(value, Mapping):
        return value
    merged = {**(rates if isinstance(rates, Mapping) else {}), **value}
    return {name: rate for name, rate in merged.items() if rate is not RESET}
