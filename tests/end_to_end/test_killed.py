"""A run that was killed, also while it wrote a checkpoint, goes on to the same end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.resumed_runs import EPOCHS, Case, make_run, state_of, unequal

CASE = Case(
    "splits, an update per window",
    grow_at=3,
    update_at=2,
    scheduled=True,
    averaged=True,
    evaluated=True,
    log_every=1,
    checkpoint_every=1,
)

ROOT = Path(__file__).resolve().parents[2]


def train_and_die(folder: str, place: str, count: int) -> None:
    """Trains, and kills this process after so many units, or so many calls of a function of `os` that saving uses."""

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if place != "unit":
        real, calls = getattr(os, place), []

        def deadly(*given: object, **named: object) -> object:
            calls.append(given)
            if len(calls) == count:
                kill()
            return real(*given, **named)

        setattr(os, place, deadly)
    run = make_run(CASE, Path(folder), stop_after=count if place == "unit" else None, act=kill)
    run.engine.fit(EPOCHS, resume="auto")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "counts"),
    [
        ("unit", (2, 8)),
        ("unit", (16, 14)),
        ("fsync", (1, 2)),
        ("fsync", (14, 15)),
        ("replace", (1, 2)),
        ("replace", (3, 6)),
    ],
)
def test_a_killed_run_goes_on_to_the_same_end(place: str, counts: tuple[int, int], tmp_path: Path) -> None:
    whole = make_run(CASE, tmp_path / "whole")
    whole.engine.fit(EPOCHS)
    for count in counts:
        code = (
            f"from tests.end_to_end.test_killed import *; train_and_die({str(tmp_path / 'run')!r}, {place!r}, {count})"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stderr
    rest = make_run(CASE, tmp_path / "run")
    rest.engine.fit(EPOCHS, resume="auto")
    assert unequal(state_of(rest.engine), state_of(whole.engine)) == []
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
    assert not [path.name for path in (tmp_path / "run" / "checkpoints").iterdir() if path.name.startswith(".")]
