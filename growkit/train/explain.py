"""A chain of loops in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from growkit.train.settings import Settings

SHAPED_BY: Mapping[str, tuple[str, ...]] = {
    "FitLoop": (
        "evaluate_every",
        "checkpoint_every_epochs",
        "keep_last",
        "keep_best",
        "best_metric",
        "best_mode",
    ),
    "EpochLoop": ("batch_size", "accumulate_steps", "log_every", "checkpoint_every"),
    "TbpttLoop": ("truncated_bptt_steps", "time_dims", "update_every", "carry_over_batches"),
}
"""The settings that shape a loop, by the name of its class; all others are for the steps of the flow."""

_FOR_FLOWS = tuple(
    setting.name
    for setting in fields(Settings)
    if setting.name != "user" and not any(setting.name in names for names in SHAPED_BY.values())
)


def chain_text(loop: object) -> str:
    """The names of a loop and all loops inside it: `FitLoop -> EpochLoop -> AutomaticFlow`."""
    return " -> ".join(type(one).__name__ for one in _chain(loop))


def explanation(loop: object, settings: Settings, asked_by: Mapping[str, str]) -> str:
    """The chain; then a line for each loop: what asked for it, and the settings that shape it and are not None.

    asked_by: the feature, by the name of the loop's class; loops without one are in every run.
    """
    lines = [chain_text(loop)]
    for one in _chain(loop):
        name = type(one).__name__
        shaping = SHAPED_BY.get(name, ()) if getattr(one, "inner", None) is not None else _FOR_FLOWS
        values = ((key, getattr(settings, key)) for key in shaping)
        set_to = ", ".join(f"{key}={value!r}" for key, value in values if value is not None)
        lines.append(f"  {name} ({asked_by.get(name, 'in every run')})" + (f": {set_to}" if set_to else ""))
    return "\n".join(lines)


def _chain(loop: object) -> Iterator[object]:
    while loop is not None:
        yield loop
        loop = getattr(loop, "inner", None)
