"""What sizes a batch shows, and how a feed counts."""

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from growkit.train.batch_samples import may_have_samples
from growkit.train.data_source import DataSource
from growkit.train.feed import Feed

Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize(
    ("batch", "sizes"),
    [
        (torch.zeros(4, 3), {4, 3}),
        ((torch.zeros(4, 3), torch.zeros(4)), {2, 4, 3}),
        (Pair(torch.zeros(5), [1, 2, 3]), {2, 5, 3}),
        ({"x": torch.zeros(2, 4), "names": ["a"] * 4}, {2, 4}),
        (np.zeros((4, 3)), {4, 3}),
        ([{"x": torch.zeros(1)}] * 40, {40, 1}),
    ],
)
def test_the_sizes_of_a_batch(batch: Any, sizes: set[int]) -> None:
    assert {count for count in range(50) if may_have_samples(batch, count)} == sizes


@pytest.mark.parametrize("batch", [3, "text", torch.tensor(1.0), object()])
def test_without_sizes_it_may_have_any_number(batch: Any) -> None:
    assert may_have_samples(batch, 7)


def take(feed: Feed, count: int) -> list[int]:
    batches = [feed.ahead(index) for index in range(feed.available(count))]
    feed.advance(len(batches))
    return [sample for batch in batches for sample in batch[:, 0].tolist()]


def uneven(*, batch_size, start):
    """Half of the batches have one sample less than asked for."""
    order, batches = list(range(start, 30)), []
    while order:
        size = batch_size - len(batches) % 2
        batches.append(torch.tensor(order[:size])[:, None].expand(-1, 9))
        order = order[size:]
    return batches


def test_where_batches_have_other_sizes_no_sample_is_lost_by_trusting_the_size_that_was_asked_for() -> None:
    feed = Feed(DataSource(uneven))
    feed.open(1, 4)
    take(feed, 1)
    assert feed.use(feed.source, 6)  # the batch ahead has 3 samples, but it is not yet known whether it is the last
    seen = take(feed, 99)
    assert seen == list(range(4, 30))


@pytest.mark.parametrize("stop", range(1, 8))
def test_where_batches_have_other_sizes_they_are_skipped_or_counted(stop: int) -> None:
    class Counting:
        def __call__(self, *, batch_size, start):
            asked.append(start)
            return uneven(batch_size=batch_size, start=start)

        def samples_in(self, batch):
            return len(batch)

    asked: list[int] = []
    for data in (uneven, Counting()):
        feed, again = Feed(DataSource(data)), Feed(DataSource(data))
        feed.open(1, 4)
        seen = take(feed, stop)
        again.load_state_dict(feed.state_dict())
        again.open(1, 4, batch=stop)
        assert seen + take(again, 99) == list(range(30))
    assert asked == [0, [4, 7, 11, 14, 18, 21, 25][stop - 1]]
