"""The settings of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from growkit.errors import SettingsError
from growkit.train.split_batch import checked_split_steps, checked_time_dims

TRAIN_DATA = "train_data"
"""The key of config updates that is no setting."""


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
    """Handed to a `train_data` factory that names it. An update acts on the next batch that is fetched,
    which comes after the next one to run, if the factory names `start` too; else on the next epoch. In
    an epoch callback it acts on the epoch about to start."""
    truncated_bptt_steps: int | None = None
    """Time steps of a split, for truncated backpropagation through time; None, 0, or more than a sequence has:
    no splits. An update of the length acts on the next batch; on and off is for a new Engine."""
    time_dims: int | Mapping[str, int | None] | None = None
    """Where the time axis of a batch is: a dim for all entries, or the path of an entry -> its dim, or None for
    one that stays whole; as in `growkit.train.split_batch`."""
    update_every: Literal["split", "batch"] = "split"
    """With splits: an optimizer step for each, or one for all splits of a batch (and of a window). An update
    acts on the next window."""
    carry_over_batches: bool = False
    """Whether the carry of a batch's last split goes on to the next batch of the epoch; None starts each if not."""
    log_every: int = 50
    """Steps (batches) between two rows of metrics. An update acts at once."""
    evaluate_every: int | None = None
    """Epochs between two evaluations, each after the last batch of its epoch; None: only `engine.evaluate()`.
    An update acts at once."""
    user: Mapping[str, object] = field(default_factory=dict)
    """Keys of your own, with any values. Config updates name them like settings; callbacks and train
    steps read them as `config.user["key"]`. An update acts at once."""

    def __post_init__(self) -> None:
        _check_number("learning_rate", self.learning_rate, "a finite number >= 0, or None", lowest=0.0)
        _check_count("accumulate_steps", self.accumulate_steps, "a whole number >= 1")
        _check_number("gradient_clip_norm", self.gradient_clip_norm, "a finite number > 0, or None", above=0.0)
        if self.batch_size is not None:
            _check_count("batch_size", self.batch_size, "a whole number >= 1, or None")
        checked_split_steps(self.truncated_bptt_steps)
        if self.time_dims is not None:
            checked_time_dims(self.time_dims)
        _check_choice("update_every", self.update_every, ("split", "batch"))
        _check_choice("carry_over_batches", self.carry_over_batches, (True, False))
        _check_count("log_every", self.log_every, "a whole number >= 1")
        if self.evaluate_every is not None:
            _check_count("evaluate_every", self.evaluate_every, "a whole number >= 1, or None")
        _check_user(self.user)
        object.__setattr__(self, "user", dict(self.user))


def _check_user(user: object) -> None:
    taken = [*(setting.name for setting in fields(Settings)), TRAIN_DATA]
    if not isinstance(user, Mapping):
        raise SettingsError(f"user={user!r} ({type(user).__name__})", "a dict from name to value", "give a dict")
    for key in user:
        if not isinstance(key, str) or key in taken:
            raise SettingsError(
                f"the key {key!r} in user", f"any name but {', '.join(taken)}", "give your setting another name"
            )


def _check_number(
    name: str, value: object, allowed: str, *, lowest: float = -math.inf, above: float = -math.inf
) -> None:
    if value is None:
        return
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise SettingsError(f"{name}={value!r} ({type(value).__name__})", allowed, "give a number")
    if not (math.isfinite(value) and value >= lowest and value > above):
        raise SettingsError(f"{name}={value!r}", allowed, "give a value in this range")


def _check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if not any(value is choice or (isinstance(choice, str) and value == choice) for choice in allowed):
        raise SettingsError(f"{name}={value!r}", " or ".join(map(repr, allowed)), "give one of them")


def _check_count(name: str, value: object, allowed: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise SettingsError(f"{name}={value!r} ({type(value).__name__})", allowed, "give an int")
    if value < 1:
        raise SettingsError(f"{name}={value!r}", allowed, "give a value in this range")
