"""One batch the automatic way: forward, backward, and the optimizer step where the window closes."""

from __future__ import annotations

from typing import Any

import torch

from growkit.train.arguments import SignatureCall
from growkit.train.outcome import Outcome, as_outcome
from growkit.train.run_state import RunState
from growkit.train.window import Window


class AutomaticFlow:
    """Owns zero_grad, forward, backward, clipping, and the steps of optimizer and schedulers.

    Each loss is divided by the true length of its window, so that the gradients of a window are those
    of its mean loss, in a shorter last window too.
    """

    def __init__(self, state: RunState, train_step: SignatureCall):
        self._state = state
        self._train_step = train_step

    def run(self, batch: Any, window: Window) -> Outcome:
        """The outcome of the batch, detached; its gradients are accumulated or already applied."""
        optimizer = self._state.runtime.optimizer
        if window.first:
            optimizer.zero_grad(set_to_none=True)
        outcome = as_outcome(self._train_step(self._state.offered_to_train_step(batch)))
        loss = outcome.loss if window.length == 1 else outcome.loss / window.length
        loss.backward()
        if window.last:
            self._update(optimizer)
        return outcome.detached()

    def _update(self, optimizer: torch.optim.Optimizer) -> None:
        clip = self._state.settings.gradient_clip_norm
        if clip is not None:
            held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            torch.nn.utils.clip_grad_norm_(held, clip)
        optimizer.step()
        for scheduler in self._state.runtime.schedulers:
            scheduler.step()

    def state_dict(self) -> dict[str, object]:
        """Empty: between windows the flow holds nothing."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Nothing to take over."""
