"""The batches of an epoch, for a train step that takes them itself."""

from __future__ import annotations

from typing import Any

from growkit.train.feed import Feed


class DataIter:
    """The batches of the epoch from the next one on; `next` takes one, `peek` looks at the one after.

    What was taken counts as trained on when the step returns. A step that wants to begin work on a batch that it
    trains on in its next call therefore peeks at it; a batch that it took and keeps is lost to a resumed run.
    """

    def __init__(self, feed: Feed):
        self._feed = feed
        self.taken = 0
        """Batches taken in this call."""

    def __iter__(self) -> DataIter:
        return self

    def __next__(self) -> Any:
        """The next batch of the epoch. Raises: StopIteration at its end."""
        batch = self.peek(default=self)
        if batch is self:
            raise StopIteration
        self.taken += 1
        return batch

    def peek(self, default: Any = None) -> Any:
        """The batch that `next` would take, already on the device; `default` at the end of the epoch."""
        return self._feed.ahead(self.taken) if self._feed.available(self.taken + 1) > self.taken else default
