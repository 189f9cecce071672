"""What a loop or a flow is, for those that come with the engine and for a user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from growkit.train.outcome import Outcome
from growkit.train.window import Window


class Loop(Protocol):
    """Runs one batch, or one split of one; a loop does so through another one, its `inner`, a flow by itself.

    Between two outcomes a run can be saved and resumed: what a loop keeps then is in its `state_dict`. All
    outcomes of a batch but the last have `ends_batch=False`; `progress.split` counts them, and says after a
    resume how many to leave out.
    """

    def run(self, batch: Any, window: Window, carry: Any = None) -> Iterator[Outcome]:
        """Gives one outcome for each unit of work; a flow gives exactly one.

        `window`: the place of the batch in its accumulation window. `carry`: what the step before handed on.
        """

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on: texts, numbers, tensors, and dicts and lists of them."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state_dict` returned between two outcomes."""


def only_outcome(outcomes: Iterator[Outcome]) -> Outcome:
    """The outcome of a flow."""
    (outcome,) = outcomes
    return outcome
