"""Measuring the model on other data, without a trace in the training."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn

from growkit.errors import EngineError
from growkit.train.arguments import SignatureCall
from growkit.train.data_source import DataSource, TrainData, batch_count
from growkit.train.metrics import weighted_means
from growkit.train.outcome import Measurement, as_measurement
from growkit.train.placement import moved
from growkit.train.precision import autocast
from growkit.train.run_state import OFFERED_TO_EVAL_STEP, RunState

EvalStep = Callable[..., object]


class Evaluation:
    """Runs an eval step on every batch of some data, and averages what it returns.

    The model is the user's own, never wrapped, in eval mode and without gradients. Afterwards each
    module has the mode that it had, and the random numbers go on as if nothing had been. No callback
    is called.

    `step`, `data`: those that are meant where `run` is given none.

    Raises: EngineError.
    """

    def __init__(self, state: RunState, step: EvalStep | None, data: TrainData | None):
        self._state = state
        self._step = None if step is None else self._call(step)
        self._data = None if data is None else DataSource(data, "eval_data")

    @property
    def is_complete(self) -> bool:
        """Whether it can run without being told a step or data."""
        return self._step is not None and self._data is not None

    def run(self, data: TrainData | None = None, step: EvalStep | None = None, *, prefix: str = "") -> dict[str, float]:
        """The mean of each metric over the data; `count`, where the step returns it, summed.

        prefix: of the names in rows and files.

        Raises: EngineError, SettingsError.
        """
        state = self._state
        call = self._step if step is None else self._call(step)
        source = self._data if data is None else DataSource(data, "eval_data")
        if call is None or source is None:
            missing = "step" if call is None else "data"
            raise EngineError(
                f"evaluate() without {missing}",
                "data and an eval step, given here or to the Engine",
                f"pass eval_{missing}=... to the Engine, or {missing}=... to evaluate",
            )
        source.check_batch_size(state.settings.batch_size, needless=True)
        state.make_folder()
        measured: list[Measurement] = []
        runtime = state.runtime
        with (
            runtime.ranks.leaving_together("evaluation", possible=not runtime.is_sharded),
            runtime.computing(),
            undisturbed(runtime.model),
            torch.no_grad(),
            autocast(runtime.model, state.settings.precision),
        ):
            now = state.settings
            batches = source.batches(epoch=state.progress.last_epoch, batch_size=now.batch_size, user=now.user)
            with state.display.evaluation(batch_count(batches)) as batch_done:
                for batch in batches:
                    if runtime.is_sharded:
                        runtime.ranks.agree("evaluation", f"batch {len(measured)}")
                    measured.append(as_measurement(call(self._offered(moved(batch, runtime.device)))))
                    batch_done()
            if not measured:
                raise EngineError(
                    "eval_data gave no batch", "at least one batch", "a generator can be read once only: pass a list"
                )
        of_ranks = runtime.ranks.gather("end of evaluation", measured)
        results = weighted_means([one for of_rank in of_ranks for one in of_rank])
        state.log_evaluation({prefix + name: value for name, value in results.items()})
        return results

    def _call(self, step: EvalStep) -> SignatureCall:
        if not callable(step):
            raise EngineError(
                f"eval_step is a {type(step).__name__}",
                "a function that returns the metrics of a batch",
                "pass a function eval_step(model, batch)",
            )
        return SignatureCall(step, (*OFFERED_TO_EVAL_STEP, *self._state.services), "eval_step")

    def _offered(self, batch: Any) -> dict[str, object]:
        offered = self._state.offered_to_train_step(batch)
        return {**offered, "model": self._state.runtime.model, "epoch": self._state.progress.last_epoch}


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """The model in eval mode; afterwards its modes, and the states of the random generators, are as before."""
    modes = [(module, module.training) for module in model.modules()]
    tensors = chain(model.parameters(), model.buffers())
    devices = sorted({tensor.get_device() for tensor in tensors if tensor.is_cuda})
    numbers = random.getstate()
    try:
        with torch.random.fork_rng(devices=devices):
            model.eval()
            yield
    finally:
        random.setstate(numbers)
        for module, training in modes:
            module.training = training
