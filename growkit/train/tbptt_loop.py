"""Truncated backpropagation through time: a batch of long sequences, split by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from growkit.errors import EngineError
from growkit.train.carry import detached
from growkit.train.loop import Loop, only_outcome
from growkit.train.outcome import NO_CARRY, Outcome
from growkit.train.run_state import RunState
from growkit.train.split_batch import Split, shapes_apart_from_time, split_batch
from growkit.train.window import Window


class TbpttLoop:
    """Runs each batch split by split; the state that the train step returns, its carry, goes on without its graph.

    A split is a unit of work of its own: the optimizer steps after each, or once for the batch, whose splits then
    weigh as much as they are long (`update_every`). The carry starts as None with each batch, or, with
    `carry_over_batches`, with each epoch, each change of the model, and where the shapes of the batch change.

    Source: Williams and Peng 1990, "An efficient gradient-based algorithm for on-line training of recurrent
    network trajectories": BPTT(h; h') with h = h' = `truncated_bptt_steps`.
    """

    def __init__(self, state: RunState, inner: Loop):
        self._state, self.inner = state, inner
        self._carry: Any = None
        self._epoch = 0  # Of the carry.
        self._shapes: Any = None  # Of the batch that the carry comes from.
        state.when_model_changes.append(self._drop_carry)

    def run(self, batch: Any, window: Window, carry: Any = None) -> Iterator[Outcome]:
        """One outcome for each split, from `progress.split` on."""
        state, settings = self._state, self._state.settings
        splits = self._splits(batch)
        state.runtime.ranks.agree(f"step {state.progress.step}", f"{len(splits)} splits")
        if state.progress.split == 0:
            self._start(batch)
        for split in splits[state.progress.split :]:
            last = split is splits[-1]
            if settings.update_every == "split":
                place = Window()
            else:
                place = window.of_split(split.weight, first=split is splits[0], last=last)
            outcome = only_outcome(self.inner.run(split.batch, place, self._carry))
            if outcome.carry is NO_CARRY and not (last and not settings.carry_over_batches):
                raise EngineError(
                    "train_step returned no carry for the next split",
                    "(loss, carry), where carry holds the state to go on with, or is None",
                    "return loss, carry",
                )
            self._carry = detached(outcome.carry) if settings.carry_over_batches or not last else None
            yield replace(outcome, carry=NO_CARRY, ends_batch=last, weight=split.weight)

    def _splits(self, batch: Any) -> list[Split]:
        settings = self._state.settings
        if not settings.truncated_bptt_steps or settings.time_dims is None:
            return [Split(batch, 1.0, 0, 0, True)]
        return split_batch(batch, settings.truncated_bptt_steps, time_dims=settings.time_dims)

    def _start(self, batch: Any) -> None:
        """A carry from the last batch goes on only inside the epoch, and for as many sequences."""
        state, dims = self._state, self._state.settings.time_dims
        shapes = None if dims is None else shapes_apart_from_time(batch, dims)
        fits = state.progress.epoch == self._epoch and shapes == self._shapes
        if self._carry is not None and not fits:
            self._carry = None
            if state.progress.epoch == self._epoch:
                state.display.message(
                    f"step {state.progress.step}: carry starts anew: "
                    f"shapes apart from time were {self._shapes}, are {shapes}"
                )
        self._epoch, self._shapes = state.progress.epoch, shapes

    def _drop_carry(self) -> None:
        """A carry of the old model does not fit the new one, and is dropped."""
        if self._carry is not None:
            self._carry = None
            self._state.display.message(f"step {self._state.progress.step}: carry starts anew: the model changed")

    def state_dict(self) -> dict[str, Any]:
        """The carry, and the state of the inner loop."""
        return {
            "carry": self._carry,
            "epoch": self._epoch,
            "shapes": self._shapes,
            "inner": self.inner.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes it over."""
        self._carry, self._epoch, self._shapes = state["carry"], state["epoch"], state["shapes"]
        self.inner.load_state_dict(state["inner"])
