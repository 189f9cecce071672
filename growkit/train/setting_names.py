"""Names of settings, and what other trainers call them."""

from __future__ import annotations

from collections.abc import Sequence

from growkit.errors import SettingsError, nearest

TRAIN_DATA = "train_data"
"""The key of config updates that is no setting."""

_OTHER_WORDS = {
    "lr": "learning_rate",
    "max_grad_norm": "gradient_clip_norm",
    "gradient_clip_val": "gradient_clip_norm",
    "clip_grad_norm": "gradient_clip_norm",
    "gradient_clip_global_norm": "gradient_clip_norm",
    "gradient_clip": "gradient_clip_value",
    "clip_grad_value": "gradient_clip_value",
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
    "tbptt_steps": "truncated_bptt_steps",
    "bptt": "truncated_bptt_steps",
    "save_steps": "checkpoint_every",
    "every_n_train_steps": "checkpoint_every",
    "every_n_epochs": "checkpoint_every_epochs",
    "save_total_limit": "keep_last",
    "save_top_k": "keep_best",
    "metric_for_best_model": "best_metric",
}
"""Words of other trainers (Hugging Face, Lightning, RETURNN) -> ours."""

_OTHER_WAYS = {
    "hiddens": "return (loss, carry) from the train step, and name `carry` in its signature",
    "optimizer_idx": "pass Engine(optimizers={...}): the train step names `optimizer`, or yields (name, loss)",
    "gradient_clip_algorithm": "set gradient_clip_norm or gradient_clip_value",
    "fp16": "set Settings(precision='fp16')",
    "bf16": "set Settings(precision='bf16')",
}
"""Words of other trainers that are no setting here -> what replaces them."""


def unknown_setting(key: object, known: Sequence[str]) -> SettingsError:
    """The error for a name that is no setting, with the one that is probably meant."""
    return SettingsError(f"the setting {key!r}", f"the settings {', '.join(known)}", _hint(str(key), known))


def _hint(key: str, known: Sequence[str]) -> str:
    if key == "user":
        return "write the keys of user themselves"
    if key in _OTHER_WAYS:
        return _OTHER_WAYS[key]
    ours = [_OTHER_WORDS[key]] if _OTHER_WORDS.get(key) in known else nearest(key, known)
    return f"write {ours[0]!r}" if ours else "remove it, or declare it in Settings(user={...})"
