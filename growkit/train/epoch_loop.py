"""One epoch: window after window until the feed is exhausted."""

from __future__ import annotations

from typing import Any

from growkit.train.callbacks import Callbacks
from growkit.train.flow_automatic import AutomaticFlow
from growkit.train.run_state import RunState
from growkit.train.window import windowed


class EpochLoop:
    """Runs the callbacks, takes one window of batches, hands them to the flow, moves the cursor."""

    def __init__(self, state: RunState, inner: AutomaticFlow, callbacks: Callbacks):
        self._state = state
        self.inner = inner
        self._callbacks = callbacks
        self._begun = 0

    def run(self, *, max_steps: int | None) -> None:
        """Runs the rest of the present epoch, or until `max_steps` batches are done in all."""
        state = self._state
        epoch = state.progress.epoch
        if state.progress.batch == 0 and self._begun != epoch:
            self._callbacks.run_epoch(state)
            self._begun = epoch
        state.feed.open(epoch, state.settings.batch_size, batch=state.progress.batch)
        while state.progress.epoch == epoch and (max_steps is None or state.progress.step < max_steps):
            self._callbacks.run_step(state)
            length = state.settings.accumulate_steps
            if max_steps is not None:
                length = min(length, max_steps - state.progress.step)
            for batch, window in windowed(state.feed.take(length)):
                with state.runtime.computing():
                    outcome = self.inner.run(batch, window)
                epoch_ended = window.last and state.feed.exhausted
                state.progress = state.progress.after_batch(updated=window.last, epoch_ended=epoch_ended)
                state.metrics.record(outcome.metrics)
                if state.progress.step % state.settings.log_every == 0:
                    state.log()
                state.display.batch_done(state.progress, state.feed.length)
        if state.progress.epoch != epoch:
            state.feed.close()

    def state_dict(self) -> dict[str, Any]:
        """The last epoch that the callbacks saw begin, the place inside the epoch, and the state of the flow."""
        return {"begun": self._begun, "feed": self._state.feed.state_dict(), "inner": self.inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes it over; the epoch is opened again at its place."""
        self._begun = state["begun"]
        self._state.feed.load_state_dict(state["feed"])
        self.inner.load_state_dict(state["inner"])
