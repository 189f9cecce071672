"""Batches, epoch after epoch."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from growkit.errors import EngineError, SettingsError
from growkit.train.data_source import DataSource
from growkit.train.feed import Feed


def take(feed: Feed, count: int) -> list[Any]:
    """The next batches, done with at once, as many as there are."""
    batches = [feed.ahead(index) for index in range(feed.available(count))]
    feed.advance(len(batches))
    return batches


def test_an_iterable_is_read_anew_in_every_epoch() -> None:
    feed = Feed(DataSource([10, 11, 12]))
    for epoch in (1, 2):
        feed.open(epoch, None)
        assert feed.length == 3
        assert feed.peek() == 10
        assert take(feed, 2) == [10, 11]
        assert not feed.exhausted
        assert take(feed, 2) == [12]
        assert feed.exhausted


def test_opening_an_open_epoch_goes_on() -> None:
    feed = Feed(DataSource(iter(range(4))))
    feed.open(1, None)
    assert take(feed, 1) == [0]
    feed.open(1, None, batch=1)
    assert take(feed, 1) == [1]
    assert feed.length is None


def test_a_factory_gets_what_it_names() -> None:
    calls = []

    def data(epoch, batch_size=8):
        calls.append((epoch, batch_size))
        return iter([epoch * 100])

    feed = Feed(DataSource(data))
    feed.open(1, None)
    feed.open(2, 4)
    assert calls == [(1, 8), (2, 4)]
    assert feed.peek() == 200


def saved(feed: Feed, batches: int) -> dict[str, Any]:
    """The state of the feed after some batches of epoch 1."""
    feed.open(1, None)
    take(feed, batches)
    return feed.state_dict()


def test_a_loaded_state_goes_to_its_place() -> None:
    state = saved(Feed(DataSource([10, 11, 12])), 2)
    feed = Feed(DataSource([10, 11, 12]))
    feed.load_state_dict(state)
    feed.open(1, None, batch=2)
    assert feed.peek() == 12
    assert feed.length == 3
    assert feed.state_dict()["position"] == {"batch_size": None, "start": 0, "batches": 2, "samples": None}
    feed.load_state_dict(saved(Feed(DataSource(range(9))), 4))
    with pytest.raises(EngineError, match="train_data gave 3 batches in epoch 1"):
        feed.open(1, None, batch=4)


def test_batches_of_an_open_window_come_again() -> None:
    first = Feed(DataSource([10, 11, 12, 13]))
    first.open(1, None)
    assert first.available(3) == 3
    first.advance()
    feed = Feed(DataSource([10, 11, 12, 13]))
    feed.load_state_dict(first.state_dict())
    feed.open(1, None, batch=1)
    assert take(feed, 9) == [11, 12, 13]


def test_data_that_is_read_once_is_not_gone_on_with_inside_an_epoch() -> None:
    feed = Feed(DataSource(iter(range(4))))
    feed.load_state_dict(saved(Feed(DataSource(iter(range(4)))), 2))
    with pytest.raises(EngineError, match="train_data is a range_iterator, which is read once"):
        feed.open(1, None, batch=2)
    feed = Feed(DataSource(lambda: iter(range(4))))
    feed.load_state_dict(saved(Feed(DataSource(lambda: iter(range(4)))), 2))
    feed.open(1, None, batch=2)
    assert feed.peek() == 2


def test_data_whose_order_is_drawn_goes_on_in_the_same_order_and_a_new_batch_size_keeps_it_too() -> None:
    def data(batch_size, start):
        return torch.randperm(20)[start:].split(batch_size)

    feed = Feed(DataSource(data))
    feed.open(1, 3)
    seen = [sample for batch in take(feed, 2) for sample in batch.tolist()]
    feed.use(feed.source, 4)
    torch.manual_seed(5)
    state = feed.state_dict()
    seen += [sample for batch in take(feed, 9) for sample in batch.tolist()]
    drawn = torch.rand(1)
    assert sorted(seen) == list(range(20))
    again = Feed(DataSource(data))
    again.load_state_dict(state)
    torch.manual_seed(5)
    again.open(1, 4, batch=2)
    assert [sample for batch in take(again, 9) for sample in batch.tolist()] == seen[6:]
    assert torch.rand(1) == drawn  # neither going on nor making the data anew moved the run's own states


def test_samples_that_the_user_counts_wrongly_are_refused() -> None:
    def data(batch_size, start):
        return [1]

    data.samples_in = lambda batch: "two"  # type: ignore[attr-defined]
    with pytest.raises(EngineError, match="samples_in of train_data returned 'two'"):
        Feed(DataSource(data)).open(1, 2)


def test_it_looks_ahead_no_further_than_asked() -> None:
    fetched = []

    def data():
        for index in range(9):
            fetched.append(index)
            yield index

    feed = Feed(DataSource(data))
    feed.open(1, None)
    assert fetched == [0]
    take(feed, 3)
    assert fetched == [0, 1, 2]


def test_an_epoch_without_a_batch_is_refused() -> None:
    feed = Feed(DataSource(iter([1])))
    feed.open(1, None)
    take(feed, 1)
    with pytest.raises(EngineError, match="train_data gave no batch in epoch 2") as caught:
        feed.open(2, None)
    assert "a generator can be read once only" in caught.value.next_step


def test_batches_are_moved_when_they_are_fetched() -> None:
    feed = Feed(DataSource([{"a": torch.zeros(2)}]), device=torch.device("meta"))
    feed.open(1, None)
    assert feed.peek()["a"].device.type == "meta"


SAMPLES = range(23)


def sliced(*, epoch, batch_size, start):
    """Samples in an order that depends on the epoch alone."""
    order = [epoch * 100 + (7 * index) % len(SAMPLES) for index in SAMPLES]
    return [order[first : first + batch_size] for first in range(start, len(order), batch_size)]


def delivered(feed: Feed, count: int) -> list[int]:
    return [sample for batch in take(feed, count) for sample in batch]


@given(windows=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4), st.none() | st.integers(0, 4)), max_size=12))
def test_no_sample_is_lost_or_repeated_whatever_the_batch_sizes(windows: list[tuple[int, int, int | None]]) -> None:
    """Window after window: perhaps another batch size, perhaps a stop inside it and a new feed from the saved state."""
    feed = Feed(DataSource(sliced))
    feed.open(1, 3)
    seen: list[int] = []
    batches = 0
    for batch_size, window, stop in windows:
        if feed.exhausted:
            break
        ahead = feed.peek()
        assert feed.use(feed.source, batch_size)
        assert feed.peek() is ahead  # what was fetched is delivered as it is
        fetched = [feed.ahead(index) for index in range(feed.available(window))]
        taken = take(feed, window if stop is None else min(stop, window))
        batches += len(taken)
        seen += [sample for batch in taken for sample in batch]
        if stop is not None and not feed.exhausted:
            state = feed.state_dict()
            feed = Feed(DataSource(sliced))
            feed.load_state_dict(state)
            feed.open(1, batch_size, batch=batches)
            pending = fetched[len(taken) :]
            assert [feed.ahead(index) for index in range(feed.available(len(pending)))] == pending
    assert seen + delivered(feed, 99) == sliced(epoch=1, batch_size=99, start=0)[0]


def test_a_new_batch_size_acts_on_the_next_batch_that_is_fetched() -> None:
    asked = []

    def data(epoch, batch_size, start):
        asked.append((epoch, batch_size, start))
        return sliced(epoch=epoch, batch_size=batch_size, start=start)

    feed = Feed(DataSource(data))
    feed.open(1, 4)
    assert feed.length == 6
    assert [len(batch) for batch in take(feed, 2)] == [4, 4]
    feed.peek()
    for batch_size in (9, 5):
        assert feed.use(feed.source, batch_size)
    assert asked == [(1, 4, 0)]  # nothing is made before it is needed
    assert [len(batch) for batch in take(feed, 9)] == [4, 5, 5, 1]
    assert asked == [(1, 4, 0), (1, 5, 12)]
    assert feed.length == 3 + 3
    assert feed.exhausted
    assert feed.use(feed.source, 4)
    assert feed.exhausted
    assert len(asked) == 2  # nothing is left to make batches of


def test_a_factory_that_names_no_start_keeps_its_batch_size_inside_the_epoch() -> None:
    for data in (lambda batch_size: sliced(epoch=1, batch_size=batch_size, start=0), lambda **given: sliced(**given)):
        feed = Feed(DataSource(data))
        feed.open(1, 8)
        assert feed.use(feed.source, 8)
        assert not feed.use(feed.source, 5)
        assert [len(batch) for batch in take(feed, 9)] == [8, 8, 7]
        feed.close()
        feed.open(2, 5)
        assert len(feed.peek()) == 5


def test_other_data_takes_over_from_the_next_batch_that_is_fetched() -> None:
    feed = Feed(DataSource(["a", "b", "c"]))
    feed.open(1, None)
    take(feed, 1)
    assert feed.peek() == "b"
    assert feed.use(DataSource(["x", "y"]), None)
    assert take(feed, 2) == ["b", "x"]
    assert feed.length == 2 + 2
    position = {"batch_size": None, "start": None, "batches": 1, "samples": None}
    assert feed.state_dict()["position"] == position
    assert take(feed, 9) == ["y"]
    feed.close()
    feed.open(2, None)
    assert take(feed, 9) == ["x", "y"]


def test_other_data_that_names_start_goes_on_where_the_old_data_was() -> None:
    feed = Feed(DataSource(sliced))
    feed.open(1, 4)
    seen = delivered(feed, 2)
    other = DataSource(lambda epoch, batch_size, start: sliced(epoch=epoch, batch_size=batch_size, start=start))
    feed.check_source(other)
    assert feed.use(other, 6)
    assert seen + delivered(feed, 99) == sliced(epoch=1, batch_size=99, start=0)[0]


def test_other_data_cannot_go_on_at_a_sample_whose_number_is_not_known() -> None:
    feed = Feed(DataSource(["a", "b", "c"]))
    feed.check_source(DataSource(sliced))
    feed.open(1, None)
    feed.check_source(DataSource(["x"]))
    with pytest.raises(SettingsError, match="train_data that names `start`, inside epoch 1") as caught:
        feed.check_source(DataSource(sliced))
    assert "return it from an epoch callback" in caught.value.next_step


def test_a_factory_that_fails_is_asked_again() -> None:
    answers = [ValueError("busy"), [1, 2]]

    def data():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    feed = Feed(DataSource(data))
    with pytest.raises(ValueError, match="busy"):
        feed.open(1, None)
    feed.open(1, None)
    assert take(feed, 9) == [1, 2]
