"""A train step that takes its batches itself, so that it can look ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from growkit.errors import EngineError
from growkit.train.data_iter import DataIter
from growkit.train.loop import Loop, only_outcome
from growkit.train.outcome import Outcome
from growkit.train.run_state import RunState
from growkit.train.window import Window


class PullingLoop:
    """Runs a train step that names `data_iter`, once for the batches that it takes in one call."""

    def __init__(self, state: RunState, inner: Loop):
        self._state, self.inner = state, inner

    def run(self, batch: Any, window: Window, carry: Any = None) -> Iterator[Outcome]:
        """One outcome for all batches that the step takes; `batch` is the first of them, and is left to the step."""
        data_iter = DataIter(self._state.feed)
        try:
            outcome = only_outcome(self.inner.run(data_iter, window, carry))
        except RuntimeError as error:
            if isinstance(error.__cause__, StopIteration):
                raise _past_the_end() from error
            raise
        except StopIteration as error:
            raise _past_the_end() from error
        if not data_iter.taken:
            raise EngineError(
                "train_step took no batch from data_iter", "at least one in each call", "call next(data_iter)"
            )
        yield replace(outcome, batches=data_iter.taken)

    def state_dict(self) -> dict[str, Any]:
        """The state of the flow."""
        return {"inner": self.inner.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes it over."""
        self.inner.load_state_dict(state["inner"])


def _past_the_end() -> EngineError:
    return EngineError(
        "train_step took a batch after the last one of the epoch",
        "at least one batch in each call, and no more than there are",
        "write next(data_iter, None) for batches after the first",
    )
