"""What the loops of one run share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from growkit.errors import EngineError, SettingsError
from growkit.train.config_updates import RESET, SettingsInForce
from growkit.train.data_iter import DataIter
from growkit.train.data_source import DataSource
from growkit.train.feed import Feed
from growkit.train.hooks import Hooks
from growkit.train.learning_rate import check_learning_rate, rates_by_optimizer, set_learning_rate
from growkit.train.metrics import Metrics, Row, append_json_line, read_json_lines, write_json_lines
from growkit.train.model_watch import ModelWatch
from growkit.train.plateau import ReduceOnEvaluation
from growkit.train.progress import Progress
from growkit.train.progress_bar import Display
from growkit.train.runtime import Runtime
from growkit.train.services import Service
from growkit.train.setting_names import TRAIN_DATA
from growkit.train.settings import Settings

OFFERED_TO_EVAL_STEP = ("model", "batch", "carry", "epoch", "step", "updates", "config", "metrics", "progress")
OFFERED_TO_TRAIN_STEP = (*OFFERED_TO_EVAL_STEP, "optimizer", "flow", "data_iter")
OFFERED_TO_EPOCH_CALLBACKS = (
    "model",
    "epoch",
    "step",
    "updates",
    "config",
    "metrics",
    "progress",
    "optimizer",
    "optimizers",
)
OFFERED_TO_CALLBACKS = (*OFFERED_TO_EPOCH_CALLBACKS, "batch")


@dataclass(slots=True)
class RunState:
    """Where a run stands and what it works with; loops read it, and only they and the callbacks move it."""

    runtime: Runtime
    in_force: SettingsInForce
    """As they were given, and the updates since."""
    settings: Settings
    """Those at this point of the run, with plain values."""
    feed: Feed
    display: Display
    watch: ModelWatch
    services: Mapping[str, Service]
    metrics_file: Path | None
    metrics: Metrics = field(default_factory=Metrics)
    progress: Progress = field(default_factory=Progress)
    history: list[Row] = field(default_factory=list)
    evaluations: list[Row] = field(default_factory=list)
    own_source: DataSource = field(init=False)
    """The data that the Engine was given."""
    data_updated: bool = False
    """Whether an update replaced the data that the Engine was given."""
    can_evaluate: bool = False
    """Whether an eval step and eval data were given."""
    check_chain: Callable[[Settings], None] = lambda settings: None
    """Raises for settings that the chain of loops cannot run."""
    asked_by: dict[str, str] = field(default_factory=dict)
    """The feature that asked for a loop, by the name of its class; of those that not every run has."""
    hooks: Hooks = field(default_factory=lambda: Hooks((), ()))
    """Callbacks that only look."""
    after_unit: Callable[[bool], object] = lambda ends_batch: None
    """Called after each unit of work, with whether it ends its batch."""
    after_epoch: Callable[[int], object] = lambda epoch: None
    """Called after each epoch, and its evaluation."""
    gradients_stay: bool = False
    """Whether gradients may mean something behind a step too: they are the train step's own to clear."""
    training: bool = False
    """Whether a `fit` goes on."""
    stopping: bool = False
    """Whether the run is to stop after the present unit of work."""
    when_model_changes: list[Callable[[], None]] = field(default_factory=list)
    """Called after each change of the model, by loops that hold something of the old one."""

    def __post_init__(self) -> None:
        self.own_source = self.feed.source

    def offered_to_train_step(self, batch: Any) -> dict[str, object]:
        """Values of `OFFERED_TO_EVAL_STEP` and the services; the model is the wrapped one. Flows add what is theirs."""
        return {
            "model": self.runtime.wrapped,
            "data_iter" if isinstance(batch, DataIter) else "batch": batch,
            "carry": None,
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
        del offered["batch"], offered["carry"]
        optimizers = self.runtime.optimizers
        only = {"optimizer": self.runtime.optimizer} if len(optimizers) == 1 else {}
        return {**offered, "model": self.runtime.model, "optimizers": optimizers, **only}

    def call_hooks(self, name: str, **special: object) -> None:
        """Calls the hooks of this name, with what epoch callbacks get and what is special to them.

        Raises: EngineError for a hook that returns something or changes the model.
        """
        if not self.hooks.wanted(name):
            return
        with self.runtime.ranks.leaving_together(name, possible=self.progress.at_window_start):
            self.hooks.call(name, {**self.offered_to_epoch_callbacks(), **special})
            self.watch.check_unchanged()

    def wrap_as_it_is(self) -> None:
        """Wraps the model again where a service dropped the wrapper, or parameters were frozen or unfrozen since.

        Raises: EngineError where no optimizer holds what is to be trained now.
        """
        if not self.runtime.is_wrapped_as_it_is:
            self.watch.check_followed()
            self.runtime.rebuild()
            self.watch.accept()

    def settings_of(self, in_force: SettingsInForce) -> Settings:
        """The settings at this point of the run, with plain values, checked against the rest of the run.

        Raises: SettingsError.
        """
        progress = self.progress
        now = in_force.at(epoch=progress.epoch, step=progress.step, updates=progress.updates)
        if now is self.settings:
            return now
        for name, rate in rates_by_optimizer(now.learning_rate, self.runtime.optimizers).items():
            if rate != self._rates().get(name):
                check_learning_rate(self.runtime.optimizers[name], self.runtime.schedulers[name], rate)
        self.check_evaluation(now)
        self.check_chain(now)
        return now

    def checked_updates(self, updates: Mapping[str, object]) -> tuple[SettingsInForce, DataSource]:
        """The settings with `updates` in force, and the data source; not applied yet.

        Raises: SettingsError, EngineError.
        """
        changed = self.in_force.updated(updates)
        source = self.feed.source
        if (data := updates.get(TRAIN_DATA, source.given)) is RESET:
            source = self.own_source
        elif data is not source.given:
            source = DataSource(data)  # type: ignore[arg-type]
        source.check_batch_size(self.settings_of(changed).batch_size)
        self.feed.check_source(source)
        return changed, source

    def put_in_force(self, in_force: SettingsInForce, source: DataSource) -> None:
        """Makes settings and data those of the run from here on.

        Raises: SettingsError; nothing is changed then.
        """
        now, before, rates = self.settings_of(in_force), self.settings, self._rates()
        if source is not self.feed.source:
            self.data_updated = source is not self.own_source
        if not self.feed.use(source, now.batch_size) and now.batch_size != before.batch_size:
            self.display.message(
                f"step {self.progress.step}: batch_size={now.batch_size} from epoch {self.progress.epoch + 1} on: "
                "train_data names no `start`"
            )
        updated = in_force.updates.get("learning_rate") is not self.in_force.updates.get("learning_rate")
        self.in_force, self.settings = in_force, now
        for name, rate in self._rates().items():
            if updated or rate != rates.get(name):
                set_learning_rate(self.runtime.optimizers[name], self.runtime.schedulers[name], rate)

    def settle(self) -> None:
        """Puts in force what the settings that change by themselves say for this point.

        Raises: SettingsError.
        """
        if not self.in_force.settings.is_constant:
            self.put_in_force(self.in_force, self.feed.source)

    def _rates(self) -> dict[str, float]:
        return rates_by_optimizer(self.settings.learning_rate, self.runtime.optimizers)

    def check_evaluation(self, settings: Settings) -> None:
        """Whether the evaluations that the settings ask for can be done.

        Raises: SettingsError.
        """
        if settings.evaluate_every is not None and not self.can_evaluate:
            raise SettingsError(
                f"evaluate_every={settings.evaluate_every} without an eval step and data",
                "evaluate_every where the Engine was given eval_step and eval_data",
                "pass Engine(eval_step=..., eval_data=...), or leave evaluate_every out",
            )
        schedulers = [one for held in self.runtime.schedulers.values() for one in held]
        if settings.evaluate_every is None and any(isinstance(one, ReduceOnEvaluation) for one in schedulers):
            raise SettingsError(
                "ReduceOnEvaluation, and no evaluate_every",
                "a scheduler that is told evaluations, where there are any",
                "set evaluate_every=1, with eval_step and eval_data",
            )

    def make_folder(self) -> None:
        """Makes the folder of the metrics file: before work begins that a wrong path would waste.

        Raises: EngineError.
        """
        if self.metrics_file is None:
            return
        folder = self.metrics_file.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(
                f"run_dir={str(folder)!r}, which cannot be made: {error}",
                "a folder, or a path for a new one",
                "name one",
            ) from error

    def load_rows(self, steps: int, evaluations: int) -> None:
        """Goes on behind the first so many rows of both kinds in the metrics file; later ones are taken away."""
        if self.metrics_file is None or not self.metrics_file.is_file():
            return
        rows = read_json_lines(self.metrics_file)
        measured = [any(name.startswith("eval_") for name in row) for row in rows]
        self.history = [row for row, is_measured in zip(rows, measured, strict=True) if not is_measured][:steps]
        self.evaluations = [row for row, is_measured in zip(rows, measured, strict=True) if is_measured][:evaluations]
        kept = {id(row) for row in (*self.history, *self.evaluations)}
        write_json_lines(self.metrics_file, [row for row in rows if id(row) in kept])

    def set_rows_aside(self) -> None:
        """Rows of an earlier run in the metrics file go to a file of their own, `metrics-1.jsonl` and so on."""
        file = self.metrics_file
        if file is not None and file.is_file():
            number = 1
            while (aside := file.with_name(f"{file.stem}-{number}{file.suffix}")).exists():
                number += 1
            file.rename(aside)
            self.display.message(f"no checkpoint to go on from: begins anew; earlier metrics are in {aside.name}")

    def log(self) -> None:
        """Adds a row of metrics to history, file and display.

        `epoch` is that of the last batch, `step` and `updates` count what is done, `learning_rate` is
        the rate of the next optimizer step.
        """
        row: Row = {
            "epoch": self.progress.last_epoch,
            "step": self.progress.step,
            "updates": self.progress.updates,
            **({"skipped": self.progress.skipped} if self.progress.skipped else {}),
            **self.metrics.row(),
            **self._learning_rates(),
            "parameters": self.watch.parameter_count,
        }
        self.history.append(row)
        self.display.row(row)
        self._write(row)

    def _learning_rates(self) -> dict[str, float]:
        rates = {name: float(one.param_groups[0]["lr"]) for name, one in self.runtime.optimizers.items()}
        if len(rates) == 1:
            return {"learning_rate": next(iter(rates.values()))}
        return {f"learning_rate_{name}": rate for name, rate in rates.items()}

    def log_evaluation(self, results: Mapping[str, float]) -> None:
        """Adds a row of results, under `eval_<name>`, to evaluations, file and display."""
        self.metrics.evaluation = dict(results)
        row: Row = {
            "epoch": self.progress.last_epoch,
            "step": self.progress.step,
            "updates": self.progress.updates,
            **{f"eval_{name}": value for name, value in results.items()},
            "parameters": self.watch.parameter_count,
        }
        self.evaluations.append(row)
        self.display.evaluated(row)
        self._write(row)
        self.call_hooks("on_evaluation_end", results=dict(results), epoch=self.progress.last_epoch)

    def _write(self, row: Row) -> None:
        if self.metrics_file is not None:
            append_json_line(self.metrics_file, row)
        self.call_hooks("on_row", row=dict(row), epoch=row["epoch"])
