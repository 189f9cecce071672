"""Looking ahead without losing a batch."""

from growkit.train.data_iter import DataIter
from growkit.train.data_source import DataSource
from growkit.train.feed import Feed


def test_what_was_only_looked_at_is_taken_next() -> None:
    feed = Feed(DataSource("abc"))
    feed.open(1, None)
    batches = DataIter(feed)
    assert (batches.peek(), next(batches), batches.peek(), batches.taken) == ("a", "a", "b", 1)
    assert list(batches) == ["b", "c"]
    assert (batches.peek(), batches.peek("end"), next(batches, None), batches.taken) == (None, "end", None, 3)
    assert feed.peek() == "a"
