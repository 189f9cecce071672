"""Backward passes and optimizer steps, in the one way that all flows share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

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
        scaled = loss if window.scale == 1.0 else loss * window.scale
        scaled.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]

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
