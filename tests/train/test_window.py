"""Batches with their place in the window."""

from collections import deque

from growkit.train.window import Window, windowed


def test_each_batch_knows_its_place_and_is_let_go() -> None:
    batches = deque("abc")
    seen = []
    for batch, window in windowed(batches):
        seen.append((batch, window, len(batches)))
    assert seen == [
        ("a", Window(first=True, last=False, length=3), 2),
        ("b", Window(first=False, last=False, length=3), 1),
        ("c", Window(first=False, last=True, length=3), 0),
    ]


def test_a_window_of_one_opens_and_closes() -> None:
    assert list(windowed(deque("a"))) == [("a", Window(first=True, last=True, length=1))]
