"""Batches, epoch after epoch."""

from collections import namedtuple

import pytest
import torch

from growkit.errors import EngineError, SettingsError
from growkit.train.feed import Feed


def test_an_iterable_is_read_anew_in_every_epoch() -> None:
    feed = Feed([10, 11, 12])
    for epoch in (1, 2):
        feed.open(epoch, None)
        assert feed.length == 3
        assert feed.peek() == 10
        assert list(feed.take(2)) == [10, 11]
        assert not feed.exhausted
        assert list(feed.take(2)) == [12]
        assert feed.exhausted


def test_opening_an_open_epoch_goes_on() -> None:
    feed = Feed(iter(range(4)))
    feed.open(1, None)
    assert list(feed.take(1)) == [0]
    feed.open(1, None, skip=1)
    assert list(feed.take(1)) == [1]
    assert feed.length is None


def test_a_factory_gets_what_it_names() -> None:
    calls = []

    def data(epoch, batch_size=8):
        calls.append((epoch, batch_size))
        return iter([epoch * 100])

    feed = Feed(data)
    feed.open(1, None)
    feed.open(2, 4)
    assert calls == [(1, 8), (2, 4)]
    assert feed.peek() == 200


def test_skipping_goes_to_the_batch_in_question() -> None:
    feed = Feed([10, 11, 12])
    feed.open(1, None, skip=2)
    assert feed.peek() == 12
    feed.close()
    with pytest.raises(EngineError, match="train_data gave 3 batches in epoch 1"):
        feed.open(1, None, skip=4)


def test_it_looks_ahead_no_further_than_asked() -> None:
    fetched = []

    def data():
        for index in range(9):
            fetched.append(index)
            yield index

    feed = Feed(data)
    feed.open(1, None)
    assert fetched == [0]
    feed.take(3)
    assert fetched == [0, 1, 2]


def test_an_epoch_without_a_batch_is_refused() -> None:
    feed = Feed(iter([1]))
    feed.open(1, None)
    feed.take(1)
    with pytest.raises(EngineError, match="train_data gave no batch in epoch 2") as caught:
        feed.open(2, None)
    assert "a generator can be read once only" in caught.value.next_step


def test_data_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(EngineError, match="train_data is a int"):
        Feed(5)


def test_a_batch_size_is_set_where_it_is_taken_and_only_there() -> None:
    Feed([1]).check_batch_size(None)
    Feed(lambda batch_size: [1]).check_batch_size(3)
    Feed(lambda batch_size=2: [1]).check_batch_size(None)
    with pytest.raises(SettingsError, match="batch_size=3 for train_data that does not take it"):
        Feed([1]).check_batch_size(3)
    with pytest.raises(SettingsError, match="no batch_size, and train_data asks for it"):
        Feed(lambda batch_size: [1]).check_batch_size(None)


def test_tensors_anywhere_in_a_batch_are_moved() -> None:
    pair = namedtuple("pair", "x y")
    tensor = torch.zeros(2)
    feed = Feed([{"a": tensor, "b": [tensor, "text", 3], "c": pair(tensor, (tensor,))}], device=torch.device("meta"))
    feed.open(1, None)
    batch = feed.peek()
    moved = [batch["a"], batch["b"][0], batch["c"].x, batch["c"].y[0]]
    assert [tensor.device.type for tensor in moved] == ["meta"] * 4
    assert batch["b"][1:] == ["text", 3]
