"""Changing settings while a run goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from growkit.errors import SettingsError, nearest
from growkit.train.learning_rate import check_learning_rate
from growkit.train.settings import TRAIN_DATA, Settings

OTHER_WORDS = {
    "lr": "learning_rate",
    "max_grad_norm": "gradient_clip_norm",
    "gradient_clip_val": "gradient_clip_norm",
    "clip_grad_norm": "gradient_clip_norm",
    "accumulate_grad_batches": "accumulate_steps",
    "accum_grad_multiple_step": "accumulate_steps",
    "gradient_accumulation_steps": "accumulate_steps",
    "train_batch_size": "batch_size",
    "per_device_train_batch_size": "batch_size",
    "train_dataloader": TRAIN_DATA,
    "train_dataset": TRAIN_DATA,
    "check_val_every_n_epoch": "evaluate_every",
    "log_every_n_steps": "log_every",
    "logging_steps": "log_every",
}
"""Words of other trainers (Hugging Face, Lightning, RETURNN) -> ours."""


def updated_settings(
    settings: Settings,
    updates: Mapping[str, object],
    *,
    optimizers: Mapping[str, Optimizer],
    schedulers: Mapping[str, Iterable[LRScheduler]],
) -> Settings:
    """The settings with all updates in force; nothing is applied yet, and one wrong update refuses all.

    The keys are those of `Settings`, those that the user declared in `Settings(user={...})`, and
    `train_data`, which is no setting and is left to the feed.

    Raises: SettingsError for an unknown key, a wrong value, or a learning rate that cannot be set.
    """
    own = [field.name for field in fields(Settings) if field.name != "user"]
    known = [*own, TRAIN_DATA, *settings.user]
    for key in updates:
        if key not in known:
            raise SettingsError(f"the setting {key!r}", f"the settings {', '.join(known)}", _hint(key, known))
    changed_user = {key: value for key, value in updates.items() if key in settings.user}
    changed_own = {key: value for key, value in updates.items() if key in own}
    changed: Settings = replace(settings, **changed_own, user={**settings.user, **changed_user})  # type: ignore[arg-type]
    if "learning_rate" in updates:
        if changed.learning_rate is None:
            raise SettingsError(
                "an update of learning_rate to None", "a finite number >= 0", "leave the key out to keep the rate"
            )
        for name, optimizer in optimizers.items():
            check_learning_rate(optimizer, schedulers[name], changed.learning_rate)
    return changed


def _hint(key: object, known: list[str]) -> str:
    if key == "user":
        return "write the keys of user themselves"
    ours = [OTHER_WORDS[str(key)]] if str(key) in OTHER_WORDS else nearest(str(key), known)
    return f"write {ours[0]!r}" if ours else "remove it, or declare it in Settings(user={...})"
