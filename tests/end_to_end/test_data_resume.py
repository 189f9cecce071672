"""Data goes on as if the run had not been interrupted: the same batches, and the same random numbers in them.

The run that is not interrupted is the reference. Between its batches it draws random numbers, as dropout does.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler

from growkit.checkpoint import load, save
from growkit.train import random_state
from growkit.train.data_source import DataSource
from growkit.train.feed import Feed

EPOCHS, SAMPLES = 3, 11


class Noisy(Dataset):
    """Numbers, each with a random one that is drawn when it is fetched."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.stack([torch.tensor(float(index)), torch.rand(())])


class Stream(IterableDataset):
    def __iter__(self):
        return iter([Noisy()[index] for index in torch.randperm(SAMPLES)])


class StatefulSampler:
    """An order of its own that goes on from epoch to epoch."""

    def __init__(self) -> None:
        self.epoch = 0

    def __len__(self):
        return SAMPLES

    def __iter__(self):
        self.epoch += 1
        return iter([(index * 3 + self.epoch) % SAMPLES for index in range(SAMPLES)])

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


class StatefulLoader:
    """As stateful loaders do it: the state names the next batch, and the end is the state of an epoch too."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(3)
        self.order: list[int] = []
        self.next, self.loaded = 0, False

    def __iter__(self):
        if not self.loaded:
            self.order, self.next = torch.randperm(SAMPLES, generator=self.generator).tolist(), 0
        self.loaded = False
        return self._batches()

    def _batches(self):
        while self.next < SAMPLES:
            self.next += 4
            yield torch.stack([Noisy()[index] for index in self.order[self.next - 4 : self.next]])

    def state_dict(self):
        return {"generator": self.generator.get_state(), "order": self.order, "next": self.next}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])
        self.order, self.next, self.loaded = state["order"], state["next"], True


class KeepsOrder:
    """A factory that draws the order of each epoch from a generator of its own."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(3)

    def __call__(self):
        order = torch.randperm(SAMPLES, generator=self.generator).tolist()
        return DataLoader([Noisy()[index] for index in order], batch_size=4)

    def state_dict(self):
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])


def own() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def from_start(epoch, batch_size, start):
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch)).tolist()
    return DataLoader(Noisy(), batch_sampler=[order[i : i + batch_size] for i in range(start, SAMPLES, batch_size)])


DATA: dict[str, Any] = {
    "a list": lambda: [torch.tensor([float(index)]) for index in range(3)],
    "in order": lambda: DataLoader(Noisy(), batch_size=4),
    "shuffled": lambda: DataLoader(Noisy(), batch_size=4, shuffle=True),
    "shuffled by a generator": lambda: DataLoader(Noisy(), batch_size=4, shuffle=True, generator=own()),
    "drawn with replacement": lambda: DataLoader(
        Noisy(), batch_size=4, sampler=RandomSampler(Noisy(), replacement=True, num_samples=70, generator=own())
    ),
    "a batch sampler": lambda: DataLoader(
        Noisy(), batch_sampler=BatchSampler(RandomSampler(Noisy(), generator=own()), 4, True)
    ),
    "a sampler that keeps state": lambda: DataLoader(Noisy(), batch_size=4, sampler=StatefulSampler()),
    "a stream": lambda: DataLoader(Stream(), batch_size=4),
    "a loader that keeps state": StatefulLoader,
    "a factory": lambda: lambda epoch: DataLoader(Noisy(), batch_size=epoch + 1, shuffle=True),
    "a factory with one loader": lambda: (lambda loader: lambda: loader)(
        DataLoader(Noisy(), batch_size=4, shuffle=True)
    ),
    "a factory that keeps state": KeepsOrder,
    "a factory of loaders that keep state": lambda: lambda: StatefulLoader(),
    "a factory of generators": lambda: lambda: (batch for batch in torch.randperm(SAMPLES).split(4)),
    "a factory that names start": lambda: from_start,
}


def run(feed: Feed, *, epoch: int, batch: int, window: int, states: Any = None) -> Iterator[list[float]]:
    """Batch after batch to the end of the last epoch; before each window, `states` gets what goes on from there."""
    while epoch <= EPOCHS:
        feed.open(epoch, 4, batch=batch)
        while not feed.exhausted:
            if states is not None:
                states.append(
                    {"epoch": epoch, "batch": batch, "feed": feed.state_dict(), "random": random_state.capture()}
                )
            for _ in range(feed.available(window)):
                torch.nn.functional.dropout(torch.ones(3), 0.5)
                batch += 1
                yield [epoch, *feed.peek().flatten().tolist()]
                feed.advance()
        feed.close()
        epoch, batch = epoch + 1, 0
        if states is not None:
            states.append({"epoch": epoch, "batch": 0, "feed": feed.state_dict(), "random": random_state.capture()})


@pytest.mark.report("R126")
@pytest.mark.report("R127")
@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("data", DATA)
def test_from_every_window_on_the_batches_are_those_of_the_whole_run(data: str, window: int, tmp_path: Path) -> None:
    check_goes_on(DATA[data], window, tmp_path)


def check_goes_on(make: Callable[[], Any], window: int, tmp_path: Path, *, inexact_from: int = EPOCHS + 1) -> None:
    """Goes on from every window; from epoch `inexact_from` on only the samples are compared."""
    states: list[dict[str, Any]] = []
    torch.manual_seed(1)
    reference, done = [], []
    for batch in run(Feed(DataSource(make())), epoch=1, batch=0, window=window, states=states):
        if len(done) < len(states):
            done += [len(reference)] * (len(states) - len(done))
        reference.append(batch)
    done += [len(reference)] * (len(states) - len(done))
    end = torch.rand(1)
    assert len(states) > 3

    def rest(state: dict[str, Any], seen: list[dict[str, Any]]) -> list[list[float]]:
        save(tmp_path / "a", state, kind="data")
        torch.manual_seed(99)
        saved = load(tmp_path / "a")
        feed = Feed(DataSource(make()))
        feed.load_state_dict(saved["feed"])
        assert random_state.restore(saved["random"]) == []
        batches = list(run(feed, epoch=saved["epoch"], batch=saved["batch"], window=window, states=seen))
        assert torch.rand(1) == end
        return batches

    for before, state in zip(done, states, strict=True):
        again: list[dict[str, Any]] = []
        batches = rest(state, again)
        if state["epoch"] >= inexact_from:
            assert [batch[1::2] for batch in batches] == [batch[1::2] for batch in reference[before:]]
            continue
        assert batches == reference[before:]
        if before < len(reference):  # Interrupted once more, where its first window begins.
            assert rest(again[0], []) == reference[before:]


def rest_of(feed: Feed) -> list[list[Any]]:
    rest = [feed.ahead(index).tolist() for index in range(feed.available(99))]
    feed.advance(len(rest))
    return rest


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_worker_processes(persistent: bool, tmp_path: Path) -> None:
    """The samples always; what workers draw, unless they were started in an epoch that is over."""

    def make() -> Any:
        return DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=persistent)

    check_goes_on(make, 2, tmp_path, inexact_from=2 if persistent else EPOCHS + 1)


@pytest.mark.report("R126")
@pytest.mark.parametrize("done", range(4))
def test_inside_a_window_the_batches_that_did_not_run_come_again(done: int) -> None:
    """They were all fetched when it was opened; random numbers were drawn since then."""
    torch.manual_seed(1)
    feed, again = (Feed(DataSource(DataLoader(Noisy(), batch_size=2, shuffle=True))) for _ in range(2))
    feed.open(1, None)
    assert feed.available(4) == 4
    ran = [feed.ahead(index).tolist() for index in range(done)]
    feed.advance(done)
    torch.rand(done)
    state, now = feed.state_dict(), random_state.capture()
    rest = rest_of(feed)
    again.load_state_dict(state)
    random_state.restore(now)
    again.open(1, None, batch=done)
    assert rest_of(again) == rest
    assert sorted(row[0] for batch in ran + rest for row in batch) == list(range(SAMPLES))
