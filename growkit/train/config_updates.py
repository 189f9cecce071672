"""Changing settings while a run goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from growkit.errors import SettingsError
from growkit.train.learning_rate import check_learning_rate
from growkit.train.nearest import nearest_name
from growkit.train.settings import Settings

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
    "log_every_n_steps": "log_every",
    "logging_steps": "log_every",
}
"""Words of other trainers (Hugging Face, Lightning, RETURNN) -> ours."""


def updated_settings(
    settings: Settings, updates: Mapping[str, object], *, optimizer: Optimizer, schedulers: Iterable[LRScheduler]
) -> Settings:
    """The settings with all updates in force; nothing is applied yet, and one wrong update refuses all.

    Raises: SettingsError for an unknown key, a wrong value, or a learning rate that cannot be set.
    """
    known = [field.name for field in fields(Settings)]
    for key in updates:
        if key not in known:
            raise SettingsError(f"the setting {key!r}", f"the settings {', '.join(known)}", _hint(key, known))
    changed: Settings = replace(settings, **updates)  # type: ignore[arg-type]
    if "learning_rate" in updates:
        if changed.learning_rate is None:
            raise SettingsError(
                "an update of learning_rate to None", "a finite number >= 0", "leave the key out to keep the rate"
            )
        check_learning_rate(optimizer, schedulers, changed.learning_rate)
    return changed


def _hint(key: object, known: list[str]) -> str:
    ours = OTHER_WORDS.get(str(key)) or nearest_name(str(key), known)
    return f"write {ours!r}" if ours else "remove it"
