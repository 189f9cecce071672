"""One epoch: window after window until the feed is exhausted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from growkit.train.callbacks import Callbacks
from growkit.train.likeness import trained
from growkit.train.loop import Loop
from growkit.train.outcome import Outcome
from growkit.train.run_state import RunState
from growkit.train.window import Window


class EpochLoop:
    """Runs the callbacks, hands the batches of one window to the inner loop, moves the cursor after each unit."""

    def __init__(self, state: RunState, inner: Loop, callbacks: Callbacks):
        self._state = state
        self.inner = inner
        self._callbacks = callbacks
        self._begun = 0

    def run(self, *, max_steps: int | None) -> None:
        """Runs the rest of the present epoch, or until `max_steps` batches are done in all."""
        state = self._state
        epoch = state.progress.epoch
        if state.progress.batch == 0 and state.progress.at_window_start and self._begun != epoch:
            state.settle()
            self._callbacks.run_epoch(state)
            self._begun = epoch
        state.feed.open(epoch, state.settings.batch_size, batch=state.progress.batch, user=state.settings.user)
        while state.progress.epoch == epoch and (max_steps is None or state.progress.step < max_steps):
            state.stopping = any(state.runtime.ranks.gather("a window", state.stopping))
            if state.stopping:
                return
            if state.progress.at_window_start:
                state.settle()
                self._callbacks.run_step(state)
            self._run_window(max_steps)
        if state.progress.epoch != epoch:
            state.feed.close()

    def _run_window(self, max_steps: int | None) -> None:
        """Runs one accumulation window, or the rest of one that was interrupted."""
        state = self._state
        length = state.progress.window
        if not length:
            length = state.settings.accumulate_steps
            if max_steps is not None:
                length = min(length, max_steps - state.progress.step)
            ranks, point = state.runtime.ranks, f"epoch {state.progress.epoch}, batch {state.progress.batch}"
            with ranks.leaving_together(point):
                length = state.feed.available(length)
            if ranks.count > 1:
                ranks.agree(point, f"a window of {length}; {trained(state.runtime.model)}")
            state.wrap_as_it_is()
        for index in range(state.progress.micro, length):
            window = Window(first=index == 0, last=index == length - 1, length=length)
            batch, begun = state.feed.peek(), state.progress
            outcomes = self.inner.run(batch, window)
            while (outcome := self._next(outcomes)) is not None:
                self._commit(outcome, window)
                if outcome.ends_batch:
                    state.call_hooks("on_train_step_end", batch=batch, epoch=begun.epoch, step=begun.step)
                state.after_unit(outcome.ends_batch)
                if state.stopping and state.runtime.ranks.count == 1:
                    return

    def _next(self, outcomes: Any) -> Outcome | None:
        runtime, step = self._state.runtime, self._state.progress.step
        with runtime.computing(), runtime.ranks.naming(f"step {step}"):
            try:
                return next(outcomes, None)
            finally:
                runtime.close_unit()

    def _commit(self, outcome: Outcome, window: Window) -> None:
        """The unit is done: data and cursor move on before anything else is told."""
        state = self._state
        if outcome.updates and state.settings.ema_decay is not None:
            state.runtime.advance_averages(state.settings.ema_decay)
        epoch_ended = False
        if outcome.ends_batch:
            state.feed.advance(outcome.batches)
            with state.runtime.ranks.leaving_together("the next batch", possible=window.last):
                epoch_ended = state.feed.exhausted
        state.progress = state.progress.after(outcome, window, epoch_ended=epoch_ended)
        state.metrics.record(outcome.metrics, outcome.weight)
        if not outcome.ends_batch:
            return
        if state.progress.step % state.settings.log_every == 0:
            state.log()
        state.display.batch_done(state.progress, state.feed.length)

    def state_dict(self) -> dict[str, Any]:
        """The last epoch that the callbacks saw begin, the place inside the epoch, and the state of the inner loop."""
        return {"begun": self._begun, "feed": self._state.feed.state_dict(), "inner": self.inner.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes it over; the epoch is opened again at its place."""
        self._begun = state["begun"]
        self._state.feed.load_state_dict(state["feed"])
        self.inner.load_state_dict(state["inner"])
