"""A train step that yields losses: one optimizer step for each."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import torch

from growkit.errors import EngineError
from growkit.train.arguments import SignatureCall
from growkit.train.optimizer_steps import OptimizerSteps
from growkit.train.outcome import NO_CARRY, Outcome, as_step_result
from growkit.train.run_state import RunState
from growkit.train.window import Window

_ALLOWED = "yield optimizer_name, loss, or a dict with 'loss' and metrics in place of the loss"


class YieldingFlow:
    """Drives a train step that is a generator: each `yield name, loss` steps the optimizer of that name.

    What the step computed before a yield is still there after it, so optimizers can share a forward pass. Each
    optimizer's gradients are cleared just before its own backward pass. What the generator returns is its carry.
    Metrics are called `<optimizer>_<metric>`.
    """

    def __init__(self, state: RunState, train_step: SignatureCall, steps: OptimizerSteps):
        self._state, self._train_step, self._steps = state, train_step, steps

    def run(self, batch: Any, window: Window, carry: Any = None) -> Iterator[Outcome]:
        """One outcome for all that the step yields."""
        metrics: dict[str, torch.Tensor | float] = {}
        updates: dict[str, int] = {}
        skipped = 0
        with self._steps.forward(window):
            generator = self._train_step({**self._state.offered_to_train_step(batch), "carry": carry})
            assert isinstance(generator, Generator)
            while True:
                try:
                    with self._steps.autocast():
                        yielded = next(generator)
                except StopIteration as end:
                    returned = end.value
                    break
                name, given = self._checked(yielded)
                result = as_step_result(given)
                assert result.loss is not None
                self._steps.zero_grad(name)
                self._steps.backward(result.loss, window, retain_graph=True)
                if self._steps.step(name):
                    updates[name] = updates.get(name, 0) + 1
                else:
                    skipped += 1
                metrics |= {f"{name}_{metric}": value for metric, value in result.metrics.items()}
        if not metrics:
            raise EngineError("train_step yielded nothing", _ALLOWED, "yield at least one loss")
        yield Outcome(metrics, NO_CARRY if returned is None else returned, updates, skipped=skipped)

    def _checked(self, yielded: object) -> tuple[str, object]:
        known = self._state.runtime.optimizers
        if not isinstance(yielded, tuple) or len(yielded) != 2:
            raise EngineError(f"train_step yielded a {type(yielded).__name__}", _ALLOWED, "yield 'generator', loss")
        name, given = yielded
        if name not in known:
            raise EngineError(
                f"train_step yielded a loss for the optimizer {name!r}",
                f"the optimizers {', '.join(known)}",
                "yield one of these names with its loss",
            )
        return name, given

    def state_dict(self) -> dict[str, Any]:
        """Empty: between two units the flow holds nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing to take over."""
