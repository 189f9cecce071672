"""Where batches come from: one epoch after another, with a look at the batch ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from growkit.errors import EngineError, SettingsError
from growkit.train import random_state
from growkit.train.data_source import DataSource, batch_count
from growkit.train.loader_state import (
    has_lasting_workers,
    keeps_state,
    loader_state,
    restore_loader_state,
    start_workers,
)
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
    samples: int | None = 0
    """Samples of the epoch before this place; None where they are not known."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """What it takes to fetch one batch again."""

    position: Position
    """The place before it."""
    random: dict[str, Any]
    """The random states before it was fetched."""
    loader: dict[str, Any] | None
    """The state of the iterable before it was fetched, if that keeps one."""


class Feed:
    """Batches of one epoch after another, from a source that may change in the middle of one.

    It holds at least one batch ahead, so that it knows which batch is an epoch's last, and a whole
    accumulation window where one is taken: only then is the window's true length known for data
    without a length. Batches are moved to the device when they are fetched. What was fetched is
    delivered, whatever changes.

    A feed that goes on from a saved state gives the batches that were not delivered, with the random
    states of then: from a loader that keeps state, or a factory that names `start`, at once; else it
    makes the iterator as it was made, with the random states of then, and skips what was delivered.
    The random states of the run are as before afterwards. Not kept: random states inside the worker
    processes of a loader that started them in an earlier epoch (`persistent_workers`), or that begins at `start`.

    Raises: EngineError for an epoch without a batch.
    """

    def __init__(self, source: DataSource, *, device: torch.device | None = None):
        self.source = source
        """Of the batches not yet fetched; `use` changes it."""
        self.length: int | None = None
        """Batches in the open epoch, where the data says so."""
        self._device = device
        self._epoch: int | None = None
        self._ahead: deque[tuple[_Mark, Any]] = deque()
        self._iterable: Iterable[Any] = ()
        self._batches: Iterator[Any] = iter(())
        self._fetched_to = Position(None)
        self._before = 0  # Batches of the epoch from earlier iterators.
        self._made: tuple[DataSource, int | None] = (source, None)
        self._batch_size: int | None = None  # Where this or `source` is not what was made, the next fetch makes it.
        self._start: dict[str, Any] = {}  # States before the iterator in use was made.
        self._user: Mapping[str, Any] = {}  # The user's own keys at the start of the open epoch.
        self._loaded: Mapping[str, Any] | None = None
        self._workers_last = False  # Those of the iterator in use were started in an earlier epoch.

    def open(
        self, epoch: int, batch_size: int | None, *, batch: int = 0, user: Mapping[str, Any] | None = None
    ) -> None:
        """Starts an epoch; does nothing if it is open already. With a loaded state: goes on there, at batch `batch`.

        user: the user's own keys, for a factory that names them.

        Raises: EngineError where there is no batch to go on with.
        """
        if self._epoch == epoch:
            return
        self.close()
        loaded, self._user = self._loaded, user or {}
        try:
            if loaded is None or loaded["position"] is None:
                self._begin(epoch, batch_size, loaded)
            else:
                self._go_on(epoch, batch_size, loaded, batch)
            if self.exhausted:
                raise EngineError(
                    f"train_data gave no batch in epoch {epoch}",
                    "at least one batch in every epoch",
                    "a generator can be read once only: pass a list, a DataLoader, or a function that makes one",
                )
        except BaseException:
            self.close()
            raise
        self._loaded = None

    def _begin(self, epoch: int, batch_size: int | None, loaded: Mapping[str, Any] | None) -> None:
        if loaded is not None:
            self.source.restore_factory_state(loaded["factory"])
        self._start = {"random": random_state.capture(), "factory": self.source.factory_state()}
        self._make(epoch, Position(batch_size), before=0, loaded=loaded)
        self._epoch = epoch
        if loaded is not None and self.exhausted:  # A loader that was saved at its end gives that end once more.
            self._batches = iter(self._iterable)

    def _go_on(self, epoch: int, batch_size: int | None, loaded: Mapping[str, Any], batch: int) -> None:
        position = Position(**loaded["position"])
        skipped, self._user = position.batches, loaded.get("user") or self._user
        if self.source.goes_on and position.samples is not None:
            position, skipped = replace(position, start=position.samples, batches=0), 0
        self._check_can_be_read_again()
        now = random_state.capture()
        try:
            random_state.restore(loaded["random"])
            self._start = {"random": loaded["random"], "factory": loaded["factory"]}
            self.source.restore_factory_state(loaded["factory"])
            self._make(epoch, position, before=batch - position.batches, loaded=loaded)
            for index in range(0 if keeps_state(self._iterable) else skipped):
                if next(self._batches, self) is self:
                    raise EngineError(
                        f"train_data gave {index} batches in epoch {epoch}",
                        f"more than {skipped}, the position to go on from",
                        "give the data that the run was started with",
                    )
            self._epoch = epoch
            for pending in loaded["pending"]:
                random_state.restore(pending["random"])
                self._batch_size = pending["batch_size"]
                self._fetch(len(self._ahead) + 1)
            self.use(self.source, batch_size)
        finally:
            random_state.restore(now)

    def _check_can_be_read_again(self) -> None:
        given: Any = self.source.given
        if not self.source.is_factory and not keeps_state(given) and isinstance(given, Iterator):
            raise EngineError(
                f"train_data is a {type(given).__name__}, which is read once, and a place inside it to go on from",
                "data that can be read from its beginning again, or that has load_state_dict",
                "pass a list, a DataLoader, or a function that makes the iterator",
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
        made_from, made_with = self._made
        if self._epoch is None or source is not made_from or batch_size == made_with or self._can_go_on_elsewhere():
            self.source, self._batch_size = source, batch_size
            return True
        self.source = source
        return False

    def _can_go_on_elsewhere(self) -> bool:
        """Whether the same source can begin after what was fetched, or nothing comes after that."""
        if not self.source.goes_on:
            return False
        if (
            self._fetched_to.samples is None
        ):  # The last batch may have fewer samples, and nobody needs to know how many.
            count = len(self._ahead)
            self._fetch(count + 1)
            return len(self._ahead) == count
        return True

    @property
    def lost_random_states(self) -> bool:
        """Whether the loaded state is of worker processes that had been started in an earlier epoch."""
        return self._loaded is not None and bool(self._loaded["workers_last"])

    @property
    def exhausted(self) -> bool:
        """Whether the open epoch has no further batch."""
        self._fetch(1)
        return not self._ahead

    def peek(self) -> Any:
        """The next batch, left in place."""
        self._fetch(1)
        return self._ahead[0][1]

    def available(self, count: int) -> int:
        """How many of the next `count` batches the epoch still has."""
        self._fetch(count)
        return min(count, len(self._ahead))

    def ahead(self, index: int) -> Any:
        """The batch so many after the next one, left in place; `available` has to count it."""
        return self._ahead[index][1]

    def advance(self, count: int = 1) -> None:
        """Lets go of so many batches, which are done with."""
        for _ in range(count):
            self._ahead.popleft()

    def state_dict(self) -> dict[str, Any]:
        """What a feed needs to give the next batch, and all after it; the next one is fetched for it."""
        if self._epoch is not None:
            self._fetch(1)
        marks = [mark for mark, _ in self._ahead]
        if not marks:
            loader = None if self.source.is_factory else loader_state(self.source.given)
            last = has_lasting_workers(self._iterable) and not self.source.is_factory
            return {
                "position": None,
                "factory": self.source.factory_state(),
                "loader": loader,
                "workers_last": last,
            }
        first = marks[0]
        return {
            "position": asdict(first.position),
            "factory": self._start["factory"],
            "loader": self._start["loader"] if first.loader is None else first.loader,
            "random": self._start["random"],
            "workers_last": self._workers_last,
            "user": dict(self._user) if self.source.takes_user else None,
            "pending": [{"batch_size": mark.position.batch_size, "random": mark.random} for mark in marks],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next `open` goes on from a state that `state_dict` returned."""
        self.close()
        self._loaded = state

    def _make(self, epoch: int, position: Position, *, before: int, loaded: Mapping[str, Any] | None = None) -> None:
        start, user = position.start or 0, self._user
        batches = self.source.batches(epoch=epoch, batch_size=position.batch_size, start=start, user=user)
        started = batches is self._iterable
        self._workers_last = has_lasting_workers(batches) and (started or bool(loaded and loaded["workers_last"]))
        if self._workers_last and not started:
            start_workers(batches)
        if loaded is not None and loaded["loader"] is not None:
            restore_loader_state(batches, loaded["loader"])
        self._start["loader"] = {} if keeps_state(batches) else loader_state(batches)
        self._iterable, self._batches = batches, iter(batches)
        self._fetched_to, self._before = position, before
        self._made, self._batch_size = (self.source, position.batch_size), position.batch_size
        count = batch_count(batches)
        self.length = None if count is None else before + count

    def _make_again(self) -> None:
        """Inside an epoch: the same source with the random states of its beginning, so that its order is the same."""
        assert self._epoch is not None
        samples = self._fetched_to.samples
        position = Position(self._batch_size, samples, samples=samples)
        before = self._before + self._fetched_to.batches
        if self.source is not self._made[0]:
            self._start = {"random": random_state.capture(), "factory": self.source.factory_state()}
            self._make(self._epoch, position, before=before)
            return
        now = random_state.capture()
        random_state.restore(self._start["random"])
        try:
            self._make(self._epoch, position, before=before)
        finally:
            random_state.restore(now)

    def _fetch(self, count: int) -> None:
        assert self._epoch is not None, "no epoch is open"
        while len(self._ahead) < count:
            if (self.source, self._batch_size) != self._made:
                # A factory is not asked for samples past its end, where `order[start:].split(n)` gives an empty batch.
                if self.source is self._made[0] and next(self._batches, self) is self:
                    return
                self._make_again()
            position = self._fetched_to
            loader = loader_state(self._iterable) if keeps_state(self._iterable) else None
            mark = _Mark(position, random_state.capture(), loader)
            batch = next(self._batches, self)
            if batch is self:
                return
            self._fetched_to = replace(position, batches=position.batches + 1, samples=self._samples_after(batch))
            self._ahead.append((mark, moved(batch, self._device)))

    def _samples_after(self, batch: object) -> int | None:
        before, count = self._fetched_to.samples, self.source.samples_in(batch, self._fetched_to.batch_size)
        return None if before is None or count is None else before + count
