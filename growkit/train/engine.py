"""The training engine: what users construct and call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import nn
from torch.optim import Optimizer

from growkit.errors import EngineError
from growkit.train import random_state
from growkit.train.arguments import SignatureCall
from growkit.train.callbacks import Callbacks
from growkit.train.checkpoints import Checkpoints, with_state
from growkit.train.compose import MakeFlow, MakeLoop, compose
from growkit.train.config_updates import SettingsInForce
from growkit.train.data_source import DataSource, TrainData
from growkit.train.engine_checks import check_kinds, check_limits, check_lists
from growkit.train.evaluation import EvalStep, Evaluation
from growkit.train.explain import explanation
from growkit.train.feed import Feed
from growkit.train.learning_rate import check_learning_rate, rates_by_optimizer, set_learning_rate
from growkit.train.likeness import described
from growkit.train.metrics import Metrics, Row
from growkit.train.model_watch import ModelWatch
from growkit.train.optimizers import OptimizersGiven
from growkit.train.progress import Progress
from growkit.train.progress_bar import make_display
from growkit.train.run_state import OFFERED_TO_CALLBACKS, RunState
from growkit.train.runtime import Runtime
from growkit.train.services import Service, check_services
from growkit.train.settings import Settings
from growkit.train.step_return import check_optimizer_state
from growkit.train.stopping import stopped_by_signals


class Engine:
    """Trains a model, and lets callbacks change it, its optimizer and the settings while it does.

    model: a module, or a function `get_model(*, epoch, step)` that returns one.
    train_step: returns the loss of a batch, or a dict with "loss" and further numbers to report. It
        gets what its signature names: model (wrapped), batch, epoch, step, updates, config, metrics,
        progress, and the services by name. Further names say how it wants to be run:
        `carry`: it returns (loss, carry), and gets the carry of the split before
        (`Settings(truncated_bptt_steps=...)`), without its graph; None at the start.
        `optimizer`: it runs once for each of several optimizers, whose name this is, and may return None.
        `flow`: it calls flow.zero_grad, flow.backward and flow.step itself.
        `data_iter`: it takes its batches itself, with next(data_iter).
        A generator yields `optimizer_name, loss`, each followed by a step of that optimizer.
    train_data: an iterable of batches, read anew in every epoch, or a function `(*, epoch, batch_size,
        start, user)` that returns one and names what it needs; `start` is the first sample to give, not 0
        where the batch size or the data changes inside an epoch; `user`, the keys of `Settings(user=...)`.
    optimizers: an optimizer, a dict of several by name, or a function of the model that returns either.
    callbacks: functions, or objects with methods `train_step_callback`, `train_epoch_callback`, or hooks
        (`on_train_step_end` and others, see `growkit.train.hooks.Hooks`). They run before each window, and
        get what their signature names: as above, with the unwrapped model, the next batch, `optimizers` by
        name, and `optimizer` where there is only one.
    epoch_callbacks: functions that run once at the start of each epoch, before its first batch is
        fetched and before the step callbacks; they get the same without `batch`.
    services: by name, such as `{"growth": gk.Growth(...)}`.
    eval_step, eval_data: as `train_step` and `train_data`, for `evaluate` and `Settings(evaluate_every=...)`.
    run_dir: folder for `metrics.jsonl`, and `checkpoints` (`Settings(checkpoint_every=...)`).
    stateful: objects with `state_dict` and `load_state_dict`, by name, that belong to the run's state; callbacks
        that have both are among them without being named.
    loops, flow: loops of your own between EpochLoop and the rest, `(state, inner) -> loop`, and a flow of your
        own, `(state, train_step, steps) -> flow`; see `growkit.train.loop.Loop`.
    console: where bars, or plain lines, are written; standard error unless given.

    Epochs count from 1, steps from 0: `step` is the index of the batch about to run over all epochs,
    `updates` the number of optimizer steps done.

    Raises: EngineError, SettingsError.
    """

    def __init__(
        self,
        model: nn.Module | Callable[..., nn.Module],
        train_step: Callable[..., object],
        train_data: TrainData,
        *,
        optimizers: OptimizersGiven,
        settings: Settings | None = None,
        callbacks: Sequence[object] = (),
        epoch_callbacks: Sequence[Callable[..., object]] = (),
        services: Mapping[str, Service] | None = None,
        eval_step: EvalStep | None = None,
        eval_data: TrainData | None = None,
        run_dir: str | Path | None = None,
        runtime: Runtime | None = None,
        stateful: Mapping[str, Any] | None = None,
        loops: Sequence[MakeLoop] = (),
        flow: MakeFlow | None = None,
        console: Console | None = None,
    ):
        check_lists(loops, callbacks=callbacks, epoch_callbacks=epoch_callbacks)
        check_kinds(settings=settings, runtime=runtime, services=services, stateful=stateful, run_dir=run_dir)
        check_kinds(flow=flow, console=console)
        services = dict(services or {})
        check_services(services, taken=OFFERED_TO_CALLBACKS)
        settings = settings or Settings()
        self.runtime = runtime or Runtime()
        """The raw and the wrapped model, and what follows them."""
        self.console = console or Console(stderr=True, quiet=self.runtime.ranks.own > 0)
        """Where bars and lines go; what is printed here while training appears above the bars."""
        source = DataSource(train_data)
        start = Progress()
        now = settings.at(epoch=start.epoch, step=start.step, updates=start.updates)
        source.check_batch_size(now.batch_size)
        self.runtime.bind(_made_model(model), optimizers)
        self.runtime.equip(precision=settings.precision, averages=settings.ema_decay is not None)
        self._state = RunState(
            runtime=self.runtime,
            in_force=SettingsInForce(settings),
            settings=now,
            feed=Feed(source, device=self.runtime.device),
            display=make_display(self.console),
            watch=ModelWatch(self.runtime),
            services=services,
            metrics_file=None if run_dir is None or self.runtime.ranks.own else Path(run_dir) / "metrics.jsonl",
        )
        self.runtime.let_engine_check(self._state.checked_updates)
        self._evaluation = Evaluation(self._state, eval_step, eval_data)
        self._state.can_evaluate = self._evaluation.is_complete
        self._state.check_evaluation(now)
        called = Callbacks(
            callbacks,
            epoch_callbacks,
            service_names=services,
            several_optimizers=len(self.runtime.optimizers) > 1,
        )
        self._state.hooks = called.hooks
        self._loop = compose(self._state, train_step, called, self._evaluation, loops=loops, flow=flow)
        self._checkpoints = Checkpoints(
            self._state,
            self._loop,
            None if run_dir is None else Path(run_dir) / "checkpoints",
            with_state(stateful or {}, callbacks),
            make_model=None if isinstance(model, nn.Module) else SignatureCall(model, ("epoch", "step"), "get_model"),
            optimizers=optimizers,
        )
        self._state.after_unit = self._checkpoints.after_unit
        self._state.after_epoch = self._checkpoints.after_epoch
        rates = rates_by_optimizer(now.learning_rate, self.runtime.optimizers)
        for name, rate in rates.items():
            check_learning_rate(self.runtime.optimizers[name], self.runtime.schedulers[name], rate)
        for name, rate in rates.items():
            set_learning_rate(self.runtime.optimizers[name], self.runtime.schedulers[name], rate)

    @property
    def model(self) -> nn.Module:
        """The model as the user knows it, never wrapped."""
        return self.runtime.model

    @property
    def optimizer(self) -> Optimizer:
        """The only optimizer."""
        return self.runtime.optimizer

    @property
    def optimizers(self) -> dict[str, Optimizer]:
        """The optimizers by name."""
        return self.runtime.optimizers

    @property
    def progress(self) -> Progress:
        """The next batch to run, and the optimizer steps done."""
        return self._state.progress

    @property
    def settings(self) -> Settings:
        """The settings in force at this point, with plain values."""
        return self._state.settings

    @property
    def metrics(self) -> Metrics:
        """Values of the last step, and means since the last row of the history."""
        return self._state.metrics

    @property
    def history(self) -> list[Row]:
        """One row for every `log_every` steps, and one for the rest at the end of a fit."""
        return self._state.history

    @property
    def evaluations(self) -> list[Row]:
        """One row for every evaluation; its results are named `eval_<name>`."""
        return self._state.evaluations

    def fit(
        self,
        epochs: int | None = None,
        *,
        max_steps: int | None = None,
        resume: str | Path | None = None,
        optimizer_state: str = "transfer",
    ) -> None:
        """Trains until `epochs` epochs or `max_steps` batches are done in all, whichever comes first.

        A second call goes on where the first one stopped. A window that `max_steps` cuts off is closed
        with the batches it has. Ctrl-C and SIGTERM stop it after the present batch or split, with a checkpoint
        if there is a run_dir; a second one at once.

        resume: "auto" goes on from the newest checkpoint in run_dir, or starts where there is none; or the
            folder of a checkpoint, or of a run. The Engine has to be set up as the run's was, with the model
            that the run began with (its growths are repeated), or as it was saved. Settings given now win over
            those given then; updates that callbacks made stay in force.
        optimizer_state: "reset" resumes with the optimizers of this Engine, of whatever class, with empty state;
            counters, schedules and all else go on.

        Raises: EngineError, CheckpointError.
        """
        check_limits(epochs, max_steps)
        check_optimizer_state(optimizer_state)
        check_kinds(resume=resume)
        self.runtime.check_raw("fit")
        state = self._state
        if state.training:
            raise EngineError(
                "fit() inside fit()", "one fit of an Engine at a time", "call it after, or call engine.stop() to end it"
            )
        state.stopping = False
        state.make_folder()
        random = None if resume is None else self._checkpoints.resume(resume, optimizer_state)
        state.watch.check_followed()
        self.runtime.ranks.agree("the start of fit", self._described())
        self.runtime.drop_wrapper()
        self.runtime.share()
        for service in state.services.values():
            service.attach(self.runtime)
        self.runtime.rebuild()
        self.runtime.enter_training()
        state.watch.accept()
        state.display.start(state.progress, epochs=epochs, max_steps=max_steps)
        state.training = True
        try:
            state.call_hooks("on_fit_start", rows=[*state.history, *state.evaluations])
            if random is not None:
                random_state.restore(random)
            with stopped_by_signals(self.stop):
                self._loop.run(epochs=epochs, max_steps=max_steps)
                if state.metrics.pending and not state.stopping:
                    state.log()
                self._checkpoints.at_end()
            state.call_hooks("on_fit_end")
            self.runtime.ranks.agree("the end of fit", f"step {state.progress.step}")
        finally:
            state.training = False
            state.display.stop()

    def stop(self) -> None:
        """Ends `fit` after the present batch or split; for callbacks, hooks and signal handlers."""
        self._state.stopping = True

    def save_checkpoint(self) -> Path:
        """Writes a checkpoint of this moment, between two units of work, and gives its folder.

        Raises: EngineError, CheckpointError.
        """
        return self._checkpoints.save()

    def _described(self) -> str:
        """What has to be the same on every rank when training begins."""
        settings = {field.name: getattr(self.settings, field.name) for field in fields(self.settings)}
        plain = {name: value for name, value in settings.items() if isinstance(value, int | float | str | bool | None)}
        return f"step {self.progress.step}; settings {plain}; {described(self.model, self.optimizers)}"

    def evaluate(
        self, data: TrainData | None = None, *, step: EvalStep | None = None, average: bool = False
    ) -> dict[str, float]:
        """The mean of each metric that the eval step returns over the batches of the eval data.

        The step returns one number, called `loss`, or a dict of numbers. If the dict holds `count`, a
        batch weighs that much, and the counts' sum is in the result; else all batches weigh the same.
        It gets what a train step gets, with the model unwrapped and in eval mode, without gradients.
        Modes and random numbers are as before afterwards. The result is also a row of `evaluations`
        and of the metrics file, under `eval_<name>`, and is `metrics.evaluation` for callbacks.

        data, step: instead of the engine's own `eval_data` and `eval_step`.
        average: measures the running average of the weights (`ema_decay`), under `eval_average_<name>`.

        Raises: EngineError, SettingsError.
        """
        if not average:
            return self._evaluation.run(data, step)
        with self.runtime.averaged():
            return self._evaluation.run(data, step, prefix="average_")

    def explain(self) -> None:
        """Prints the loops of this run, from the outermost on, what asked for each, and the settings that shape it."""
        print(explanation(self._loop, self._state.settings, self._state.asked_by))


def _made_model(model: nn.Module | Callable[..., nn.Module]) -> nn.Module:
    made: object = model
    if not isinstance(model, nn.Module) and callable(model):
        start = Progress()
        made = SignatureCall(model, ("epoch", "step"), "get_model")({"epoch": start.epoch, "step": start.step})
    if not isinstance(made, nn.Module):
        raise EngineError(
            f"model is a {type(made).__name__}" if made is model else f"get_model returned a {type(made).__name__}",
            "a torch.nn.Module, or a function get_model(*, epoch, step) that returns one",
            "pass or return the module",
        )
    return made
