"""Signals end a block after it has ended by itself."""

import os
import signal
import threading

import pytest

from growkit.train.stopping import stopped_by_signals


@pytest.mark.parametrize(
    ("number", "raised", "code"), [(signal.SIGTERM, SystemExit, 143), (signal.SIGINT, KeyboardInterrupt, None)]
)
def test_a_signal_asks_to_stop_and_ends_the_program_afterwards(number: int, raised: type, code: int | None) -> None:
    before, done = signal.getsignal(number), []

    def work() -> None:
        with stopped_by_signals(lambda: done.append("asked")):
            os.kill(os.getpid(), number)
            done.append("finished the unit")

    with pytest.raises(raised) as caught:
        work()
    assert done == ["asked", "finished the unit"]
    assert getattr(caught.value, "code", None) == code
    assert signal.getsignal(number) is before


def test_a_second_signal_ends_it_at_once() -> None:
    done = []

    def work() -> None:
        with stopped_by_signals(lambda: None):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            done.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == []


def test_beside_the_main_thread_signals_are_left_alone() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def run() -> None:
        with stopped_by_signals(lambda: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
