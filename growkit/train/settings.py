"""The settings of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from growkit.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set for a run, and changed while it runs by `config_updates` of a callback.

    Raises: SettingsError for a value of the wrong type or out of range.
    """

    learning_rate: float | None = None
    """Rate of all parameter groups, and base rate of their schedulers; None keeps the optimizer's own.
    An update acts on the very next optimizer step."""
    accumulate_steps: int = 1
    """Batches whose mean loss makes one optimizer step. An update acts on the window about to open."""
    gradient_clip_norm: float | None = None
    """Largest norm of all gradients together; None clips nothing. An update acts on the next optimizer step."""
    batch_size: int | None = None
    """Handed to a `train_data` factory that names it. An update acts on the next epoch."""
    log_every: int = 50
    """Steps (batches) between two rows of metrics. An update acts at once."""

    def __post_init__(self) -> None:
        _check_number("learning_rate", self.learning_rate, "a finite number >= 0, or None", lowest=0.0)
        _check_count("accumulate_steps", self.accumulate_steps, "a whole number >= 1")
        _check_number("gradient_clip_norm", self.gradient_clip_norm, "a finite number > 0, or None", above=0.0)
        if self.batch_size is not None:
            _check_count("batch_size", self.batch_size, "a whole number >= 1, or None")
        _check_count("log_every", self.log_every, "a whole number >= 1")


def _check_number(
    name: str, value: object, allowed: str, *, lowest: float = -math.inf, above: float = -math.inf
) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SettingsError(f"{name}={value!r} ({type(value).__name__})", allowed, "give a number")
    if not (math.isfinite(value) and value >= lowest and value > above):
        raise SettingsError(f"{name}={value!r}", allowed, "give a value in this range")


def _check_count(name: str, value: object, allowed: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingsError(f"{name}={value!r} ({type(value).__name__})", allowed, "give an int")
    if value < 1:
        raise SettingsError(f"{name}={value!r}", allowed, "give a value in this range")
