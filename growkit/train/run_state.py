"""What the loops of one run share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from growkit.train.config_updates import updated_settings
from growkit.train.data_source import DataSource
from growkit.train.feed import Feed
from growkit.train.metrics import Metrics, Row, append_json_line
from growkit.train.model_watch import ModelWatch
from growkit.train.progress import Progress
from growkit.train.progress_bar import Display
from growkit.train.runtime import Runtime
from growkit.train.services import Service
from growkit.train.settings import TRAIN_DATA, Settings

OFFERED_TO_TRAIN_STEP = ("model", "batch", "epoch", "step", "updates", "config", "metrics", "progress")
OFFERED_TO_CALLBACKS = (*OFFERED_TO_TRAIN_STEP, "optimizer")
OFFERED_TO_EPOCH_CALLBACKS = tuple(name for name in OFFERED_TO_CALLBACKS if name != "batch")


@dataclass(slots=True)
class RunState:
    """Where a run stands and what it works with; loops read it, and only they and the callbacks move it."""

    runtime: Runtime
    settings: Settings
    feed: Feed
    display: Display
    watch: ModelWatch
    services: Mapping[str, Service]
    metrics_file: Path | None
    metrics: Metrics = field(default_factory=Metrics)
    progress: Progress = field(default_factory=Progress)
    history: list[Row] = field(default_factory=list)

    def offered_to_train_step(self, batch: Any) -> dict[str, object]:
        """Values of `OFFERED_TO_TRAIN_STEP` and the services; the model is the wrapped one."""
        return {
            "model": self.runtime.wrapped,
            "batch": batch,
            "epoch": self.progress.epoch,
            "step": self.progress.step,
            "updates": self.progress.updates,
            "config": self.settings,
            "metrics": self.metrics,
            "progress": self.progress,
            **self.services,
        }

    def offered_to_callbacks(self) -> dict[str, object]:
        """Values of `OFFERED_TO_CALLBACKS` and the services; the model is the user's, the batch the next one."""
        return {**self.offered_to_epoch_callbacks(), "batch": self.feed.peek()}

    def offered_to_epoch_callbacks(self) -> dict[str, object]:
        """The same without a batch: none of the epoch is fetched yet."""
        offered = self.offered_to_train_step(None)
        del offered["batch"]
        return {**offered, "model": self.runtime.model, "optimizer": self.runtime.optimizer}

    def checked_updates(self, updates: Mapping[str, object]) -> tuple[Settings, DataSource]:
        """The settings with `updates` in force, and the data source; not applied yet.

        Raises: SettingsError, EngineError.
        """
        changed = updated_settings(
            self.settings, updates, optimizer=self.runtime.optimizer, schedulers=self.runtime.schedulers
        )
        source = self.feed.source
        if (data := updates.get(TRAIN_DATA, source.given)) is not source.given:
            source = DataSource(data)  # type: ignore[arg-type]
        source.check_batch_size(changed.batch_size)
        self.feed.check_source(source)
        return changed, source

    def log(self) -> None:
        """Adds a row of metrics to history, file and display.

        `epoch` is that of the last batch, `step` and `updates` count what is done, `learning_rate` is
        the rate of the next optimizer step.
        """
        row: Row = {
            "epoch": self.progress.last_epoch,
            "step": self.progress.step,
            "updates": self.progress.updates,
            **self.metrics.row(),
            "learning_rate": float(self.runtime.optimizer.param_groups[0]["lr"]),
            "parameters": self.watch.parameter_count,
        }
        self.history.append(row)
        if self.metrics_file is not None:
            append_json_line(self.metrics_file, row)
        self.display.row(row)
