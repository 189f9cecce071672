"""The whole run: epoch after epoch up to a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from growkit.train.epoch_loop import EpochLoop
from growkit.train.evaluation import Evaluation
from growkit.train.plateau import step_schedulers, tell_evaluation
from growkit.train.progress import Progress
from growkit.train.run_state import RunState


class FitLoop:
    """Runs epochs until the cursor reaches a limit, going on from where it stands; and evaluations between epochs."""

    def __init__(self, state: RunState, inner: EpochLoop, evaluation: Evaluation):
        self._state = state
        self.inner = inner
        self._evaluation = evaluation
        self._closed = 0

    def run(self, *, epochs: int | None, max_steps: int | None) -> None:
        """Runs until `epochs` epochs or `max_steps` batches are done in all, whichever comes first."""
        while True:
            self._close_epoch()
            progress = self._state.progress
            if epochs is not None and progress.epoch > epochs:
                return
            if max_steps is not None and progress.step >= max_steps:
                return
            self.inner.run(max_steps=max_steps)
            if self._state.stopping:
                return

    def _close_epoch(self) -> None:
        """Does once what belongs between two epochs, also where the run was interrupted there."""
        done = self._state.progress.epoch - 1
        if done == self._closed:
            return
        self._state.call_hooks("on_epoch_end", epoch=done)
        every = self._state.settings.evaluate_every
        if every is not None and done % every == 0:
            results = self._evaluation.run()
            for schedulers in self._state.runtime.schedulers.values():
                tell_evaluation(schedulers, results)
        if self._state.settings.schedule_by == "epoch":
            for schedulers in self._state.runtime.schedulers.values():
                step_schedulers(schedulers)
        self._closed = done
        self._state.after_epoch(done)

    def state_dict(self) -> dict[str, Any]:
        """The cursor, the last epoch that was closed, and the state of the inner loops."""
        return {
            "progress": self._state.progress.state_dict(),
            "closed": self._closed,
            "inner": self.inner.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state_dict` returned."""
        self._state.progress = Progress.from_state_dict(state["progress"])
        self._closed = state["closed"]
        self.inner.load_state_dict(state["inner"])
