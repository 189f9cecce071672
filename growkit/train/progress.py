"""Where training stands: a cursor that names the next unit of work."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, slots=True)
class Progress:
    """The next batch to run, and how many optimizer steps are done.

    The cursor is rolled over before anything reads it: after the last batch of an epoch it names
    batch 0 of the next one, so that no reader has to infer whether something just ended.
    """

    epoch: int = 1
    """Epoch of the next batch; the first epoch is 1."""
    batch: int = 0
    """Index of the next batch in its epoch."""
    step: int = 0
    """Index of the next batch over all epochs: batches done."""
    updates: int = 0
    """Optimizer steps done."""

    def after_batch(self, *, updated: bool, epoch_ended: bool) -> Progress:
        """The cursor after one batch, which may have closed an accumulation window and the epoch."""
        moved = replace(self, step=self.step + 1, updates=self.updates + updated)
        if epoch_ended:
            return replace(moved, epoch=self.epoch + 1, batch=0)
        return replace(moved, batch=self.batch + 1)

    @property
    def last_epoch(self) -> int:
        """Epoch of the batch that ran last; that of the first batch before any ran."""
        return self.epoch - 1 if self.batch == 0 and self.step else self.epoch

    def state_dict(self) -> dict[str, int]:
        """The four counters by name."""
        return asdict(self)

    @classmethod
    def from_state_dict(cls, state: dict[str, int]) -> Progress:
        """The cursor that `state_dict` was taken of."""
        return cls(**state)
