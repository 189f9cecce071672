"""The settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeGuard

from growkit.errors import SettingsError
from growkit.train import setting_checks as checks
from growkit.train.setting_names import TRAIN_DATA, unknown_setting
from growkit.train.setting_values import ChangingSetting, ComputedSetting, EpochwiseSetting, StepwiseSetting
from growkit.train.split_batch import TimeDims


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set for a run, and changed while it runs by `config_updates` of a callback.

    Those marked "may change by itself" may also be a StepwiseSetting, an EpochwiseSetting, or a function
    of any of `epoch`, `step`, `updates`. They are read where a window opens; an update of such a setting is
    an error. All settings may be updated, but for those that say "fixed".

    Raises: SettingsError for a value of the wrong type or out of range, and for values that contradict
        each other.
    """

    learning_rate: Any = None
    """Rate of all parameter groups, and base rate of their schedulers; None keeps the optimizer's own. With
    several optimizers also a dict by their names. May change by itself, each entry too. An update acts on
    the very next optimizer step; in a dict it changes the optimizers that it names."""
    accumulate_steps: Any = 1
    """Batches whose mean loss makes one optimizer step. May change by itself. An update acts on the window
    about to open."""
    gradient_clip_norm: Any = None
    """Largest norm of all gradients together; None clips nothing. May change by itself. An update acts on
    the next optimizer step."""
    batch_size: Any = None
    """Handed to a `train_data` factory that names it. May change by itself. An update acts on the next
    batch that is fetched, which comes after the next one to run, if the factory names `start` too; else on
    the next epoch. In an epoch callback it acts on the epoch about to start."""
    log_every: int = 50
    """Steps (batches) between two rows of metrics. An update acts at once."""
    evaluate_every: int | None = None
    """Epochs between two evaluations, each after the last batch of its epoch; None: only `engine.evaluate()`.
    An update acts at once."""
    user: Mapping[str, object] = field(default_factory=dict)
    """Keys of your own, with any values. Config updates name them like settings; callbacks and train
    steps read them as `config.user["key"]`. May change by themselves, with ComputedSetting(f) for a function.
    An update acts at once."""
    gradient_clip_value: Any = None
    """Largest size of each entry of a gradient, clipped before the norm is; None clips nothing. May change by
    itself. An update acts on the next optimizer step."""
    truncated_bptt_steps: int | None = None
    """Time steps of a split, for truncated backpropagation through time; None, 0, or more than a sequence has:
    no splits. An update of the length acts on the next batch; on and off is for a new Engine."""
    time_dims: TimeDims | None = None
    """Where the time axis of a batch is: a dim for all entries, or the path of an entry -> its dim, or None for
    one that stays whole; as in `growkit.train.split_batch`. An update acts on the next batch."""
    update_every: Literal["split", "batch"] = "split"
    """With splits: an optimizer step for each, or one for all splits of a batch (and of a window). An update
    acts on the next window."""
    carry_over_batches: bool = False
    """Whether the carry of a batch's last split goes on to the next batch of the epoch; None starts each if not."""
    precision: Literal["bf16", "fp16"] | None = None
    """"bf16": autocast; "fp16": autocast and a GradScaler; None: as the model computes. Fixed."""
    nonfinite: Literal["raise", "skip", "ignore"] = "raise"
    """What to do about a loss or gradients that are not finite, before an optimizer step: "raise" an error, "skip"
    the step, or "ignore" it. With fp16, steps whose gradients overflow by the loss scale are skipped always.
    An update acts on the next optimizer step."""
    schedule_by: Literal["update", "epoch"] = "update"
    """Whether schedulers step after each optimizer "update" or after each "epoch". Fixed."""
    ema_decay: float | None = None
    """Decay of the running mean of the parameters per optimizer step; None keeps no mean. An update to another
    decay acts on the next optimizer step; on or off is fixed."""
    checkpoint_every: int | None = None
    """Steps (batches) between two checkpoints. An update acts at once."""
    checkpoint_every_epochs: int | None = None
    """Epochs between two checkpoints. An update acts at once."""
    keep_last: int | None = 3
    """Newest checkpoints that are kept; None keeps all. An update acts at the next checkpoint."""
    keep_best: int = 0
    """Best checkpoints by `best_metric` that are kept too. An update acts at the next checkpoint."""
    best_metric: str | None = None
    """Name of the result of an evaluation that says which checkpoints are best. An update acts at the next one."""
    best_mode: Literal["min", "max"] = "min"
    """Whether the "min" or the "max" of it is best. An update acts at the next checkpoint."""

    def __new__(cls, *args: Any, **given: Any) -> Settings:
        known = [setting.name for setting in fields(cls)]
        for key in given:
            if key not in known:
                raise unknown_setting(key, known)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        checks.user(self.user, [*OWN, "user", TRAIN_DATA])
        object.__setattr__(self, "user", dict(self.user))
        for name in MAY_CHANGE:
            object.__setattr__(self, name, _as_given(getattr(self, name)))
        for name, check in CHECKS.items():
            for part, value in _parts(name, getattr(self, name)).items():
                _check(part, value, check)
        self._check_together()

    @property
    def is_constant(self) -> bool:
        """Whether no setting changes by itself."""
        own = [value for name in MAY_CHANGE for value in _parts(name, getattr(self, name)).values()]
        return not any(isinstance(value, ChangingSetting) for value in [*own, *self.user.values()])

    def at(self, *, epoch: int, step: int, updates: int) -> Settings:
        """The settings in force at a point of the run: the same, with plain values for all that change by themselves.

        epoch, step: of the batch about to run, from 1 and from 0; updates: optimizer steps done.

        Raises: SettingsError for a value that could not be given as a constant, with its point.
        """
        if self.is_constant:
            return self
        point = {"epoch": epoch, "step": step, "updates": updates}
        values: dict[str, object] = {}
        for name in MAY_CHANGE:
            given = getattr(self, name)
            values[name] = (
                {key: _at(rate, point) for key, rate in given.items()} if _is_dict(given) else _at(given, point)
            )
            sources = _parts(name, given)
            for part, value in _parts(name, values[name]).items():
                if value is not sources[part]:
                    at = f"{sources[part]!r} at epoch {epoch}, step {step}, after {updates} updates"
                    _check_from(at, part, value, CHECKS[name])
        user = {key: _at(value, point) for key, value in self.user.items()}
        return replace(self, **values, user=user)  # type: ignore[arg-type]

    def _check_together(self) -> None:
        if (self.keep_best > 0) != (self.best_metric is not None):
            raise SettingsError(
                f"keep_best={self.keep_best} with best_metric={self.best_metric!r}", "both or none of them", "give both"
            )


CHECKS: Mapping[str, checks.Check] = {
    "learning_rate": checks.number("a finite number >= 0, or None", lowest=0.0),
    "accumulate_steps": checks.count(or_none=False),
    "gradient_clip_norm": checks.number("a finite number > 0, or None", above=0.0),
    "batch_size": checks.count(),
    "log_every": checks.count(or_none=False),
    "evaluate_every": checks.count(),
    "gradient_clip_value": checks.number("a finite number > 0, or None", above=0.0),
    "truncated_bptt_steps": checks.count(lowest=0),
    "time_dims": checks.time_dims,
    "update_every": checks.one_of("split", "batch"),
    "carry_over_batches": checks.one_of(False, True),
    "precision": checks.one_of(None, "bf16", "fp16"),
    "nonfinite": checks.one_of("raise", "skip", "ignore"),
    "schedule_by": checks.one_of("update", "epoch"),
    "ema_decay": checks.number("a number >= 0 and < 1, or None", lowest=0.0, below=1.0),
    "checkpoint_every": checks.count(),
    "checkpoint_every_epochs": checks.count(),
    "keep_last": checks.count(),
    "keep_best": checks.count(lowest=0, or_none=False),
    "best_metric": checks.text,
    "best_mode": checks.one_of("min", "max"),
}
"""The check of each setting but `user`; for a dict of rates, that of each rate."""

MAY_CHANGE = ("learning_rate", "accumulate_steps", "gradient_clip_norm", "gradient_clip_value", "batch_size")
"""Settings that may change by themselves, beside the user's own keys."""

FIXED = ("precision", "schedule_by")
"""Settings that are not updated: what was made by them goes on."""

FIXED_ON_OR_OFF = ("ema_decay",)
"""Settings whose value is updated, but not whether there is one."""

OWN = tuple(setting.name for setting in fields(Settings) if setting.name != "user")
"""The names of all settings but `user`."""


def _is_dict(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _as_given(value: object) -> object:
    """Functions as settings that are computed by them, the rates of a dict too."""
    if _is_dict(value):
        return {key: _as_given(rate) for key, rate in value.items()}
    return ComputedSetting(value) if callable(value) and not isinstance(value, type) else value


def _parts(name: str, value: object) -> dict[str, object]:
    """The values that a setting consists of, under the names that errors use: several for a dict of rates.

    Raises: SettingsError for a dict whose keys are no names.
    """
    if name != "learning_rate" or not _is_dict(value):
        return {name: value}
    if not value or not all(isinstance(key, str) for key in value):
        raise SettingsError(
            f"{name}={value!r}", "a dict from names of optimizers to rates", f"write {name}={{'generator': 1e-3}}"
        )
    return {f"{name}[{key!r}]": rate for key, rate in value.items()}


def _check(name: str, value: object, check: checks.Check) -> None:
    if name.partition("[")[0] not in MAY_CHANGE or not isinstance(value, ChangingSetting):
        check(name, value)
    elif isinstance(value, StepwiseSetting | EpochwiseSetting):
        for one in value.values.values():
            _check_from(repr(value), name, one, check)


def _check_from(source: str, name: str, value: object, check: checks.Check) -> None:
    try:
        check(name, value)
    except SettingsError as error:
        raise SettingsError(f"{error.given}, from {source}", error.allowed, error.next_step) from error


def _at(value: object, point: Mapping[str, int]) -> object:
    return value.at(**point) if isinstance(value, ChangingSetting) else value
