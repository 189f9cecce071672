"""The place of each batch in its accumulation window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Window:
    """Handed down from loop to loop, so that nobody has to ask upwards whether gradients accumulate."""

    first: bool
    """The batch opens the window: gradients are cleared before it."""
    last: bool
    """The batch closes the window: the optimizer steps after it."""
    length: int
    """Batches in this window; fewer than `accumulate_steps` at the end of an epoch."""


def windowed(batches: deque[Any]) -> Iterator[tuple[Any, Window]]:
    """Each batch of one window with its place in it; a batch is let go once it is handed out."""
    length = len(batches)
    for index in range(length):
        yield batches.popleft(), Window(index == 0, index == length - 1, length)
