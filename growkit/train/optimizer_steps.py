"""Backward passes and optimizer steps, in the one way that all flows share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_

from growkit.errors import EngineError
from growkit.train import precision
from growkit.train.finite import gradient_norm, is_finite, nonfinite_error
from growkit.train.plateau import step_schedulers
from growkit.train.run_state import RunState
from growkit.train.window import Window


class OptimizerSteps:
    """zero_grad, backward, clipping, and the steps of optimizers and of their schedulers.

    Each loss is scaled by its unit's share of the window, so that the gradients of a window are those of its mean
    loss, in a shorter last window too.
    """

    def __init__(self, state: RunState):
        self._state = state
        self._loss: torch.Tensor | None = None  # Of the last backward pass.

    @contextmanager
    def forward(self, window: Window) -> Iterator[None]:
        """Where forward and backward of one unit run: gradients of several processes meet where the window closes."""
        with self._state.runtime.synchronizing(window.last):
            yield

    def autocast(self) -> AbstractContextManager[object]:
        """Where the train step is called; `backward` and `step` leave it by themselves."""
        return precision.autocast(self._state.runtime.model, self._state.settings.precision)

    def zero_grad(self, name: str) -> None:
        """No gradient of this optimizer's parameters stays alive."""
        runtime = self._state.runtime
        runtime.optimizers[name].zero_grad(set_to_none=True)
        if runtime.scaling is not None:
            runtime.scaling.forget(name)

    def backward(self, loss: torch.Tensor, window: Window, *, retain_graph: bool = False) -> None:
        """Adds the gradients of the loss, as large as its share of the window says.

        They are NaN where the loss is not finite, so that the step is the only place that has to look, also in
        other processes, and after a resume.
        """
        runtime, settings = self._state.runtime, self._state.settings
        self._loss = loss.detach()
        scaled = window.scaled(loss)
        if runtime.scaling is not None:
            scaled = runtime.scaling.scaled(scaled, runtime.optimizers)
        start = None if settings.nonfinite == "ignore" else scaled.detach() * 0 + 1
        try:
            with precision.outside_autocast(runtime.model, settings.precision):
                scaled.backward(start, retain_graph=retain_graph)
        except RuntimeError as error:
            if (explained := _explained(str(error))) is not None:
                raise explained from error
            raise

    def step(self, name: str) -> bool:
        """Clips the gradients of this optimizer and applies them; whether it did, or dropped them.

        Raises: EngineError for a loss or gradients that are not finite, unless the settings say otherwise.
        """
        runtime, settings = self._state.runtime, self._state.settings
        optimizer = runtime.optimizers[name]
        with precision.outside_autocast(runtime.model, settings.precision):
            if not self._prepared(name):
                self.zero_grad(name)
                return False
            optimizer.step()
        if settings.precision is not None:
            torch.clear_autocast_cache()  # It holds casts of the old weights, if this is inside the train step.
        if settings.schedule_by == "update":
            step_schedulers(runtime.schedulers[name])
        return True

    def _prepared(self, name: str) -> bool:
        """Unscales, looks at and clips the gradients; False where they are to be dropped."""
        runtime, settings = self._state.runtime, self._state.settings
        optimizer, scaling = runtime.optimizers[name], runtime.scaling
        held = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if scaling is not None and held:
            scaling.unscale(name, optimizer)
        norm = None
        if scaling is not None or settings.nonfinite != "ignore":
            norm = gradient_norm(held)
            if not is_finite(norm):
                overflow = scaling is not None and scaling.loss_was_finite
                if settings.nonfinite == "raise" and not overflow:
                    raise nonfinite_error(runtime.model, held, self._loss, step=self._state.progress.step)
                return False
        if settings.gradient_clip_value is not None:
            clip_grad_value_(held, settings.gradient_clip_value)
            norm = None
        if settings.gradient_clip_norm is not None:
            if norm is None:
                clip_grad_norm_(held, settings.gradient_clip_norm)
            else:
                clip_grads_with_norm_(held, settings.gradient_clip_norm, norm)
        return True


def _explained(message: str) -> EngineError | None:
    """What torch's messages about a graph that is gone mean in a training step; None for others."""
    if "modified by an inplace operation" in message:
        return EngineError(
            "a loss whose graph holds parameters that an optimizer step has changed since",
            "backward passes before the step that changes what their graph needs",
            "compute the loss after that step, or yield (or flow.backward) it before",
        )
    if "backward through the graph a second time" in message:
        return EngineError(
            "a loss whose graph was used before: it reaches back into an earlier step",
            "a graph of its own for each loss; what steps hand on comes without its graph, as `carry`",
            "return the state as carry, or .detach() it; for two losses of one graph give retain_graph=True",
        )
    return None
