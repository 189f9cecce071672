"""Backward passes and optimizer steps, in the one way that all flows share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from growkit.errors import EngineError
from growkit.train.run_state import RunState
from growkit.train.window import Window


class OptimizerSteps:
    """zero_grad, backward, clipping, and the steps of optimizers and of their schedulers.

    Each loss is scaled by its unit's share of the window, so that the gradients of a window are those of its mean
    loss, in a shorter last window too.
    """

    def __init__(self, state: RunState):
        self._state = state

    @contextmanager
    def forward(self, window: Window) -> Iterator[None]:
        """Where forward and backward of one unit run: gradients of several processes meet where the window closes."""
        with self._state.runtime.synchronizing(window.last):
            yield

    def zero_grad(self, name: str) -> None:
        """No gradient of this optimizer's parameters stays alive."""
        self._state.runtime.optimizers[name].zero_grad(set_to_none=True)

    def backward(self, loss: torch.Tensor, window: Window, *, retain_graph: bool = False) -> None:
        """Adds the gradients of the loss, as large as its share of the window says."""
        try:
            window.scaled(loss).backward(retain_graph=retain_graph)
        except RuntimeError as error:
            if (explained := _explained(str(error))) is not None:
                raise explained from error
            raise

    def step(self, name: str) -> bool:
        """Clips the gradients of this optimizer and applies them; whether it did."""
        optimizer = self._state.runtime.optimizers[name]
        clip = self._state.settings.gradient_clip_norm
        if clip is not None:
            held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            torch.nn.utils.clip_grad_norm_(held, clip)
        optimizer.step()
        for scheduler in self._state.runtime.schedulers[name]:
            scheduler.step()
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
