"""A train step that does backward and optimizer steps itself, through the flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from growkit.errors import EngineError
from growkit.train.arguments import SignatureCall
from growkit.train.optimizer_steps import OptimizerSteps
from growkit.train.outcome import Outcome, as_step_result
from growkit.train.run_state import RunState
from growkit.train.window import Window


class ManualFlow:
    """Hands itself to the train step as `flow`; the step calls `flow.zero_grad`, `flow.backward` and `flow.step`.

    They do what the automatic flow does: the loss is scaled for its accumulation window, in which only the first
    `zero_grad` clears and only the last batch's `step` steps; gradients are clipped, schedulers stepped, updates
    counted. A batch whose gradients are left without a step opens a window that the step's own code closes:
    callbacks wait until then. What the step returns is only reported.
    """

    def __init__(self, state: RunState, train_step: SignatureCall, steps: OptimizerSteps):
        self._state, self._train_step, self._steps = state, train_step, steps
        self._window: Window | None = None
        self._updates: dict[str, int] = {}
        self._skipped = 0
        self._waiting = False
        self._added = self._stepped = False  # In the present call.

    def run(self, batch: Any, window: Window, carry: Any = None) -> Iterator[Outcome]:
        """The outcome of the batch."""
        self._window, self._updates, self._skipped = window, {}, 0
        self._added = self._stepped = False
        try:
            with self._steps.forward(window), self._steps.autocast():
                offered = self._state.offered_to_train_step(batch)
                result = as_step_result(self._train_step({**offered, "carry": carry, "flow": self}), needs_loss=False)
        finally:
            self._window = None
        yield Outcome(result.metrics, result.carry, self._updates, skipped=self._skipped, closed=not self._waiting)

    @property
    def accumulates(self) -> bool:
        """Whether this batch, or split, does not close its accumulation window: `step` does nothing now."""
        return not self._open().last

    def zero_grad(self, optimizer: str | None = None) -> None:
        """Clears the gradients of one optimizer, or of all; inside an accumulation window only before
        its first backward pass, and after its step."""
        window = self._open()
        opens = window.first and (window.last or not self._added)
        if opens or (window.last and self._stepped):
            for name in self._named(optimizer):
                self._steps.zero_grad(name)
            self._waiting = False

    def backward(self, loss: torch.Tensor, *, retain_graph: bool = False) -> None:
        """Adds the gradients of the loss, scaled for the accumulation window."""
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise EngineError(
                f"flow.backward of {loss!r}",
                "a loss with one element and a graph",
                "reduce the loss, and do not detach it",
            )
        self._steps.backward(loss.reshape(()), self._open(), retain_graph=retain_graph)
        self._waiting = self._added = True

    def step(self, optimizer: str | None = None) -> None:
        """Clips and applies the gradients of one optimizer, or of each; at the end of an accumulation window only."""
        if not self._open().last:
            return
        for name in self._named(optimizer):
            if self._steps.step(name):
                self._updates[name] = self._updates.get(name, 0) + 1
            else:
                self._skipped += 1
        self._waiting, self._stepped = False, True

    def _named(self, optimizer: str | None) -> tuple[str, ...]:
        known = self._state.runtime.optimizers
        if optimizer is None:
            return tuple(known)
        if optimizer not in known:
            raise EngineError(f"the optimizer {optimizer!r}", f"the optimizers {', '.join(known)}", "give one of these")
        return (optimizer,)

    def _open(self) -> Window:
        if self._window is None:
            raise EngineError("a flow outside of its train step", "calls inside the train step", "do not keep the flow")
        return self._window

    def state_dict(self) -> dict[str, Any]:
        """Whether gradients wait for a step."""
        return {"waiting": self._waiting}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes it over."""
        self._waiting = state["waiting"]
