"""A run that was interrupted after any unit of work and goes on is the run that was not, to the last bit."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from growkit.checkpoint import load
from tests.end_to_end.resumed_runs import EPOCHS, FLAVOURS, Case, make_run, state_of, unequal

EVERYTHING = {
    "grow_at": 3,
    "update_at": 2,
    "scheduled": True,
    "clipped": True,
    "averaged": True,
    "evaluated": True,
    "log_every": 3,
}


def check_interrupted(case: Case, points: tuple[int, ...], folder: Path) -> None:
    """The run interrupted after so many units, and again after so many more, against the whole one.

    A point counts units from the interruption before; one behind the end interrupts nothing, and is the last.
    """
    whole = make_run(case, folder / "whole")
    whole.engine.fit(EPOCHS)
    seen, units = [], 0
    for point in (*points, None):
        part = make_run(case, folder / "parts", stop_after=point)
        part.engine.fit(EPOCHS, resume="auto")
        seen += part.seen.points
        units += part.units.units
        if part.units.units != point:
            break
    assert seen == whole.seen.points
    assert units == whole.units.units
    assert unequal(state_of(part.engine), state_of(whole.engine)) == []
    files = [folder / name / "metrics.jsonl" for name in ("parts", "whole")]
    assert files[0].read_text() == files[1].read_text()


@pytest.mark.report("R142")
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_each_flavour_goes_on_where_it_was(flavour: str, tmp_path: Path) -> None:
    """Inside windows and batches: before the growth and the update, then behind them."""
    points = (5, 12) if "splits" in flavour else (3, 2)
    check_interrupted(Case(flavour, **EVERYTHING), points, tmp_path)


def cases() -> st.SearchStrategy[Case]:
    steps = st.none() | st.integers(0, 9)
    return st.builds(
        Case,
        flavour=st.sampled_from(list(FLAVOURS)),
        shuffled=st.booleans(),
        grow_at=steps,
        update_at=steps,
        scheduled=st.booleans(),
        clipped=st.booleans(),
        averaged=st.booleans(),
        evaluated=st.booleans(),
        log_every=st.integers(1, 4),
        checkpoint_every=st.none() | st.integers(1, 4),
    )


UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
"""Runs take too long for smaller examples to be looked for."""


def interrupted(case: Case) -> st.SearchStrategy[tuple[Case, tuple[int, ...]]]:
    """The case with up to three points, each any unit of the run: 10 batches, of 3 splits each."""
    units = st.integers(1, 30 if "splits" in case.flavour else 10)
    return st.tuples(st.just(case), st.lists(units, min_size=1, max_size=3).map(tuple))


INTERRUPTED = cases().flatmap(interrupted)


@settings(max_examples=5, phases=UNSHRUNK)
@given(run=INTERRUPTED)
def test_any_run_goes_on_from_any_point(run: tuple[Case, tuple[int, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_interrupted(*run, Path(folder))


@pytest.mark.slow
@settings(max_examples=150, phases=UNSHRUNK)
@given(run=INTERRUPTED)
def test_any_run_goes_on_from_any_point_many_times(run: tuple[Case, tuple[int, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_interrupted(*run, Path(folder))


def calls(run: object) -> list[tuple[object, ...]]:
    """Name, epoch and step of each call."""
    return [point[:3] for point in run.seen.points if point[0] in ("epoch", "step", "epoch done")]  # type: ignore[attr-defined]


def test_after_an_epoch_its_callbacks_are_not_called_again(tmp_path: Path) -> None:
    """The end of an epoch belongs to the run that ends it, its beginning to the one that goes on."""
    first = make_run(Case(checkpoint_every=5), tmp_path)
    first.engine.fit(1)
    assert calls(first) == [("epoch", 1, 0), *(("step", 1, step) for step in range(5)), ("epoch done", 1, 5)]
    second = make_run(Case(checkpoint_every=5), tmp_path)
    second.engine.fit(2, resume="auto")
    assert calls(second) == [("epoch", 2, 5), *(("step", 2, step) for step in range(5, 10)), ("epoch done", 2, 10)]


def test_a_growth_at_a_step_comes_after_the_checkpoint_of_that_step(tmp_path: Path) -> None:
    case = Case(grow_at=3, checkpoint_every=1)
    whole = make_run(case, tmp_path)
    whole.engine.fit(max_steps=4)
    for step, size in ((3, 4), (4, 8)):
        run = make_run(case, tmp_path / str(step), stop_after=1)
        run.engine.fit(EPOCHS, resume=tmp_path / "checkpoints" / f"step-{step:08d}")
        assert [point[:2] for point in run.seen.points if point[0] == "grown"] == ([("grown", 3)] if step == 3 else [])
        assert run.engine.model.output.in_features == 8
        saved = load(tmp_path / "checkpoints" / f"step-{step:08d}")
        assert saved["model"]["output.weight"].shape == (2, size)
