"""Several optimizers on one batch, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from growkit.train.flow_automatic import AutomaticFlow
from growkit.train.loop import only_outcome
from growkit.train.outcome import NO_CARRY, Outcome
from growkit.train.run_state import RunState
from growkit.train.window import Window


class OptimizerLoop:
    """Runs the train step once for each optimizer, in their order, and steps that optimizer before the next one runs.

    Meanwhile parameters of other optimizers only need no gradient; those that the user froze stay frozen. Each
    optimizer has a carry of its own. Metrics are called `<optimizer>_<metric>`.
    """

    def __init__(self, state: RunState, inner: AutomaticFlow):
        self._state, self.inner = state, inner

    def run(self, batch: Any, window: Window, carry: Any = None) -> Iterator[Outcome]:
        """One outcome for all optimizers together."""
        metrics: dict[str, torch.Tensor | float] = {}
        carries: dict[str, Any] = {}
        updates: dict[str, int] = {}
        skipped = 0
        for name in self._state.runtime.optimizers:
            with self._only(name):
                own = None if carry is None else carry.get(name)
                outcome = only_outcome(self.inner.run(batch, window, own, optimizer=name))
            metrics |= {f"{name}_{metric}": value for metric, value in outcome.metrics.items()}
            updates |= outcome.updates
            skipped += outcome.skipped
            if outcome.carry is not NO_CARRY:
                carries[name] = outcome.carry
        yield Outcome(metrics, carries or NO_CARRY, updates, skipped=skipped, closed=window.last)

    @contextmanager
    def _only(self, name: str) -> Iterator[None]:
        optimizers = self._state.runtime.optimizers
        own = {id(p) for group in optimizers[name].param_groups for p in group["params"]}
        others = [
            parameter
            for optimizer in optimizers.values()
            for group in optimizer.param_groups
            for parameter in group["params"]
            if id(parameter) not in own and parameter.requires_grad
        ]
        for parameter in others:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in others:
                parameter.requires_grad_(True)

    def state_dict(self) -> dict[str, Any]:
        """The state of the flow."""
        return {"inner": self.inner.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes it over."""
        self.inner.load_state_dict(state["inner"])
