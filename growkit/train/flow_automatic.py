"""One batch the automatic way: forward, backward, and the optimizer step where the window closes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from growkit.train.arguments import SignatureCall
from growkit.train.optimizer_steps import OptimizerSteps
from growkit.train.outcome import Outcome, as_step_result
from growkit.train.run_state import RunState
from growkit.train.window import Window


class AutomaticFlow:
    """Owns zero_grad, forward, backward and the step of one optimizer: the only one, or the one it is told."""

    def __init__(self, state: RunState, train_step: SignatureCall, steps: OptimizerSteps):
        self._state, self._train_step, self._steps = state, train_step, steps

    def run(self, batch: Any, window: Window, carry: Any = None, *, optimizer: str | None = None) -> Iterator[Outcome]:
        """The outcome of the batch; its gradients are accumulated or already applied.

        With several optimizers `optimizer` is the name of one, and a step that returns None leaves it as it is.
        """
        state = self._state
        name = state.runtime.only_name if optimizer is None else optimizer
        with self._steps.forward(window):
            if window.first:
                self._steps.zero_grad(name)
            offered = state.offered_to_train_step(batch)
            with self._steps.autocast():
                returned = self._train_step({**offered, "carry": carry, "optimizer": name})
            if returned is None and optimizer is not None:
                yield Outcome(carry=carry)
                return
            result = as_step_result(returned)
            assert result.loss is not None
            self._steps.backward(result.loss, window)
        stepped = window.last and self._steps.step(name)
        yield Outcome(
            result.metrics,
            result.carry,
            {name: 1} if stepped else {},
            skipped=int(window.last and not stepped),
            closed=window.last,
        )

    def state_dict(self) -> dict[str, Any]:
        """Empty: between two units the flow holds nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing to take over."""
