"""The whole run: epoch after epoch up to a limit."""

from __future__ import annotations

from typing import Any

from growkit.train.epoch_loop import EpochLoop
from growkit.train.progress import Progress
from growkit.train.run_state import RunState


class FitLoop:
    """Runs epochs until the cursor reaches a limit; going on from where the cursor stands."""

    def __init__(self, state: RunState, inner: EpochLoop):
        self._state = state
        self.inner = inner

    def run(self, *, epochs: int | None, max_steps: int | None) -> None:
        """Runs until `epochs` epochs or `max_steps` batches are done in all, whichever comes first."""
        while (epochs is None or self._state.progress.epoch <= epochs) and (
            max_steps is None or self._state.progress.step < max_steps
        ):
            self.inner.run(max_steps=max_steps)

    def state_dict(self) -> dict[str, Any]:
        """The cursor and the state of the inner loops, as they are between two windows."""
        return {"progress": self._state.progress.state_dict(), "inner": self.inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state that `state_dict` returned."""
        self._state.progress = Progress.from_state_dict(state["progress"])
        self.inner.load_state_dict(state["inner"])
