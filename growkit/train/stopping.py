"""Stopping a run from outside, without losing a unit of work."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(SystemExit):
    """SIGTERM ended the run; its code is 143, as the shell's for a program that SIGTERM ended."""


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `stop` inside, and end the program's work after it; a second one does so at once.

    Raises: KeyboardInterrupt after Ctrl-C, Terminated after SIGTERM, when the block has ended by itself.
    """
    if threading.current_thread() is not threading.main_thread():  # Only there can signals be handled.
        yield
        return
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received:
            _leave(number)
        received.append(number)
        stop()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        _leave(received[0])


def _leave(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(128 + number)
