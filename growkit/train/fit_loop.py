"""The whole run: epoch after epoch up to a limit."""

from __future__ import annotations

from typing import Any

from growkit.train.epoch_loop import EpochLoop
from growkit.train.evaluation import Evaluation
from growkit.train.progress import Progress
from growkit.train.run_state import RunState


class FitLoop:
    """Runs epochs until the cursor reaches a limit, going on from where it stands; and evaluations between epochs."""

    def __init__(self, state: RunState, inner: EpochLoop, evaluation: Evaluation):
        self._state = state
        self.inner = inner
        self._evaluation = evaluation

    def run(self, *, epochs: int | None, max_steps: int | None) -> None:
        """Runs until `epochs` epochs or `max_steps` batches are done in all, whichever comes first."""
        while (epochs is None or self._state.progress.epoch <= epochs) and (
            max_steps is None or self._state.progress.step < max_steps
        ):
            epoch = self._state.progress.epoch
            self.inner.run(max_steps=max_steps)
            every = self._state.settings.evaluate_every
            if every is not None and epoch % every == 0 and self._state.progress.epoch > epoch:
                self._evaluation.run()

    def state_dict(self) -> dict[str, Any]:
        """The cursor and the state of the inner loops, as they are between two windows."""
        return {"progress": self._state.progress.state_dict(), "inner": self.inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state that `state_dict` returned."""
        self._state.progress = Progress.from_state_dict(state["progress"])
        self.inner.load_state_dict(state["inner"])
