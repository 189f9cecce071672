"""Where training stands: a cursor that names the next unit of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from growkit.train.outcome import Outcome
from growkit.train.window import Window


@dataclass(frozen=True, slots=True)
class Progress:
    """The next unit to run, a batch or a split of one, and how many optimizer steps are done.

    The cursor is rolled over before anything reads it: after the last batch of an epoch it names
    batch 0 of the next one, so that no reader has to infer whether something just ended.
    """

    epoch: int = 1
    """Epoch of the next batch; the first epoch is 1."""
    batch: int = 0
    """Index of the next batch in its epoch."""
    split: int = 0
    """Index of the next split in its batch; 0 where batches are not split."""
    step: int = 0
    """Index of the next batch over all epochs: batches done."""
    micro: int = 0
    """Batches of the open accumulation window that are done."""
    window: int = 0
    """Batches of the open accumulation window in all; 0 between two windows."""
    partial: bool = False
    """Whether gradients wait for an optimizer step."""
    updates_of: Mapping[str, int] = field(default_factory=dict)
    """Optimizer steps done, by name of the optimizer."""
    skipped: int = 0
    """Optimizer steps left out, since loss or gradients were not finite."""

    @property
    def updates(self) -> int:
        """Optimizer steps done; of several optimizers, by the one that did most."""
        return max(self.updates_of.values(), default=0)

    @property
    def at_window_start(self) -> bool:
        """Whether no batch is begun and no gradient is alive: where callbacks run and the model may change."""
        return not (self.split or self.micro or self.partial)

    @property
    def last_epoch(self) -> int:
        """Epoch of the unit that ran last; that of the first batch before any ran."""
        return self.epoch - 1 if self.batch == 0 and self.split == 0 and self.step else self.epoch

    def after(self, outcome: Outcome, window: Window, *, epoch_ended: bool) -> Progress:
        """The cursor after one unit of a batch with this place in its accumulation window."""
        updates = dict(self.updates_of)
        for name, count in outcome.updates.items():
            updates[name] = updates.get(name, 0) + count
        skipped = self.skipped + outcome.skipped
        moved = replace(self, partial=not outcome.closed, updates_of=updates, skipped=skipped, window=window.length)
        if not outcome.ends_batch:
            return replace(moved, split=self.split + 1)
        moved = replace(moved, split=0, step=self.step + outcome.batches, batch=self.batch + outcome.batches)
        moved = replace(moved, micro=0, window=0) if window.last else replace(moved, micro=self.micro + 1)
        return replace(moved, epoch=self.epoch + 1, batch=0) if epoch_ended else moved

    def state_dict(self) -> dict[str, Any]:
        """The counters by name."""
        return asdict(self)

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Progress:
        """The cursor that `state_dict` was taken of."""
        return cls(**state)
