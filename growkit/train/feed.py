"""Where batches come from: one epoch after another, with a look at the batch ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from growkit.errors import EngineError, SettingsError
from growkit.train.data_source import DataSource, batch_count
from growkit.train.placement import moved


@dataclass(frozen=True, slots=True)
class Position:
    """A place inside an epoch: how the iterator in use was made, and how far it was read."""

    batch_size: int | None
    """Batch size that the iterator was made with."""
    start: int | None = 0
    """Samples of the epoch before its first batch; None where they are not known."""
    batches: int = 0
    """Batches read from it."""

    @property
    def samples(self) -> int | None:
        """Samples of the epoch before this place; None where they are not known."""
        if self.batches == 0 or self.start is None:
            return self.start
        return None if self.batch_size is None else self.start + self.batches * self.batch_size


class Feed:
    """Batches of one epoch after another, from a source that may change in the middle of one.

    It holds at least one batch ahead, so that it knows which batch is an epoch's last, and a whole
    accumulation window where one is taken: only then is the window's true length known for data
    without a length. Batches are moved to the device when they are fetched. What was fetched is
    delivered, whatever changes.

    Raises: EngineError for an epoch without a batch.
    """

    def __init__(self, source: DataSource, *, device: torch.device | None = None):
        self.source = source
        """Of the batches not yet fetched; `use` changes it."""
        self.length: int | None = None
        """Batches in the open epoch, where the data says so."""
        self._device = device
        self._epoch: int | None = None
        self._ahead: deque[Any] = deque()
        self._batches: Iterator[Any] = iter(())
        self._fetched_to = Position(None)
        self._before = 0  # Batches of the epoch from earlier iterators.
        self._made: tuple[DataSource, int | None] = (source, None)
        self._batch_size: int | None = None  # Where this or `source` is not what was made, the next fetch makes it.
        self._loaded: Position | None = None

    def open(self, epoch: int, batch_size: int | None, *, batch: int = 0) -> None:
        """Starts an epoch; does nothing if it is open already. With a loaded state: goes on there, at batch `batch`.

        Raises: EngineError where there is no batch to go on with.
        """
        if self._epoch == epoch:
            return
        position = self._loaded or Position(batch_size)
        if self.source.goes_on and position.samples is not None:
            position = Position(position.batch_size, position.samples)
        self._ahead.clear()
        self._make(epoch, replace(position, batches=0), before=batch - position.batches)
        for index in range(position.batches):
            if next(self._batches, self) is self:
                raise EngineError(
                    f"train_data gave {index} batches in epoch {epoch}",
                    f"more than {position.batches}, the position to go on from",
                    "give the data that the run was started with",
                )
        self._epoch, self._fetched_to, self._loaded = epoch, position, None
        if self.exhausted:
            self.close()
            raise EngineError(
                f"train_data gave no batch in epoch {epoch}",
                "at least one batch in every epoch",
                "a generator can be read once only: pass a list, a DataLoader, or a function that makes one",
            )

    def close(self) -> None:
        """Forgets the open epoch; the next `open` starts a new iterator."""
        self._epoch, self._batches = None, iter(())
        self._ahead.clear()

    def check_source(self, source: DataSource) -> None:
        """Whether `use` may go on with this source now.

        Raises: SettingsError for one that would have to begin at a sample whose number is not known.
        """
        if self._epoch is None or source is self._made[0] or not source.goes_on or self._fetched_to.samples is not None:
            return
        raise SettingsError(
            f"train_data that names `start`, inside epoch {self._epoch}",
            "such data after batches whose batch_size was set, or at the start of an epoch",
            "return it from an epoch callback, or do not name `start`: the data is then read from its beginning",
        )

    def use(self, source: DataSource, batch_size: int | None) -> bool:
        """Takes the next batch that is fetched from this source, with this batch size, where that loses no sample.

        A new source goes on after the samples that were fetched if it names `start`; else it is read
        from its beginning, and the epoch ends with it. The same source must name `start` to take a new
        batch size inside an epoch; else the epoch goes on with the old one. It returns whether the
        next fetch is as asked.
        """
        self.source = source
        made_from, made_with = self._made
        if self._epoch is None or source is not made_from or batch_size == made_with or self._goes_on():
            self._batch_size = batch_size
            return True
        return False

    def _goes_on(self) -> bool:
        return self.source.goes_on and self._fetched_to.samples is not None

    @property
    def exhausted(self) -> bool:
        """Whether the open epoch has no further batch."""
        self._fetch(1)
        return not self._ahead

    def peek(self) -> Any:
        """The next batch, left in place."""
        self._fetch(1)
        return self._ahead[0]

    def available(self, count: int) -> int:
        """How many of the next `count` batches the epoch still has."""
        self._fetch(count)
        return min(count, len(self._ahead))

    def ahead(self, index: int) -> Any:
        """The batch so many after the next one, left in place; `available` has to count it."""
        return self._ahead[index]

    def advance(self, count: int = 1) -> None:
        """Lets go of so many batches, which are done with."""
        for _ in range(count):
            self._ahead.popleft()

    def state_dict(self) -> dict[str, int | None]:
        """The place of the next batch inside the open epoch; empty between two epochs."""
        if self._epoch is None:
            return {}
        return asdict(replace(self._fetched_to, batches=self._fetched_to.batches - len(self._ahead)))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next `open` goes on from a state that `state_dict` returned between two windows."""
        self.close()
        self._loaded = Position(**state) if state else None

    def _make(self, epoch: int, position: Position, *, before: int) -> None:
        batches = self.source.batches(epoch=epoch, batch_size=position.batch_size, start=position.start or 0)
        self._batches = iter(batches)
        self._fetched_to, self._before = position, before
        self._made, self._batch_size = (self.source, position.batch_size), position.batch_size
        count = batch_count(batches)
        self.length = None if count is None else before + count

    def _fetch(self, count: int) -> None:
        assert self._epoch is not None, "no epoch is open"
        while len(self._ahead) < count:
            if (self.source, self._batch_size) != self._made:
                # A factory is not asked for samples past its end, where `order[start:].split(n)` gives an empty batch.
                if self.source is self._made[0] and next(self._batches, self) is self:
                    return
                position = Position(self._batch_size, self._fetched_to.samples)
                self._make(self._epoch, position, before=self._before + self._fetched_to.batches)
            batch = next(self._batches, self)
            if batch is self:
                return
            self._ahead.append(moved(batch, self._device))
            self._fetched_to = replace(self._fetched_to, batches=self._fetched_to.batches + 1)
