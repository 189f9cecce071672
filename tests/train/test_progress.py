"""The cursor."""

from growkit.train.outcome import Outcome
from growkit.train.progress import Progress
from growkit.train.window import Window

OPEN, CLOSING = Window(first=True, last=False, length=2), Window(first=False, last=True, length=2)


def test_the_cursor_names_the_next_batch_and_rolls_over_at_the_end_of_an_epoch() -> None:
    start = Progress()
    assert (start.epoch, start.batch, start.step, start.updates) == (1, 0, 0, 0)
    assert start.at_window_start
    accumulating = start.after(Outcome(closed=False), OPEN, epoch_ended=False)
    assert accumulating == Progress(epoch=1, batch=1, step=1, micro=1, window=2, partial=True)
    assert not accumulating.at_window_start
    ended = accumulating.after(Outcome(updates={"main": 1}), CLOSING, epoch_ended=True)
    assert ended == Progress(epoch=2, batch=0, step=2, updates_of={"main": 1})
    assert ended.at_window_start


def test_splits_are_counted_inside_their_batch() -> None:
    split = Progress().after(Outcome(ends_batch=False, updates={"main": 1}), Window(), epoch_ended=False)
    assert split == Progress(split=1, window=1, updates_of={"main": 1})
    assert not split.at_window_start
    done = split.after(Outcome(updates={"main": 1}), Window(), epoch_ended=False)
    assert done == Progress(batch=1, step=1, updates_of={"main": 2})


def test_several_batches_may_be_taken_at_once() -> None:
    assert Progress().after(Outcome(batches=3), Window(), epoch_ended=False) == Progress(batch=3, step=3)


def test_gradients_that_wait_for_a_step_keep_the_window_open() -> None:
    left = Progress().after(Outcome(closed=False), Window(), epoch_ended=False)
    assert left == Progress(batch=1, step=1, partial=True)
    assert not left.at_window_start


def test_updates_are_those_of_the_optimizer_that_did_most() -> None:
    progress = Progress()
    for updates in ({"critic": 1}, {"critic": 1, "generator": 1}):
        progress = progress.after(Outcome(updates=updates), Window(), epoch_ended=False)
    assert progress.updates_of == {"critic": 2, "generator": 1}
    assert progress.updates == 2


def test_the_last_epoch_is_that_of_the_unit_that_ran() -> None:
    assert Progress().last_epoch == 1
    assert Progress(epoch=2, batch=0, step=5).last_epoch == 1
    assert Progress(epoch=2, batch=1, step=6).last_epoch == 2
    assert Progress(epoch=2, batch=0, split=1, step=5).last_epoch == 2


def test_state_goes_there_and_back() -> None:
    progress = Progress(
        epoch=3, batch=1, split=2, step=11, micro=1, window=4, partial=True, updates_of={"main": 6}, skipped=2
    )
    assert progress.state_dict() == {
        "epoch": 3,
        "batch": 1,
        "split": 2,
        "step": 11,
        "micro": 1,
        "window": 4,
        "partial": True,
        "updates_of": {"main": 6},
        "skipped": 2,
    }
    assert Progress.from_state_dict(progress.state_dict()) == progress
