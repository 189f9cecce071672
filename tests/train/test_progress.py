"""The cursor."""

from growkit.train.progress import Progress


def test_the_cursor_names_the_next_batch_and_rolls_over_at_the_end_of_an_epoch() -> None:
    start = Progress()
    assert (start.epoch, start.batch, start.step, start.updates) == (1, 0, 0, 0)
    accumulating = start.after_batch(updated=False, epoch_ended=False)
    assert accumulating == Progress(epoch=1, batch=1, step=1, updates=0)
    ended = accumulating.after_batch(updated=True, epoch_ended=True)
    assert ended == Progress(epoch=2, batch=0, step=2, updates=1)


def test_the_last_epoch_is_that_of_the_batch_that_ran() -> None:
    assert Progress().last_epoch == 1
    assert Progress(epoch=2, batch=0, step=5).last_epoch == 1
    assert Progress(epoch=2, batch=1, step=6).last_epoch == 2


def test_state_goes_there_and_back() -> None:
    progress = Progress(epoch=3, batch=1, step=11, updates=6)
    assert progress.state_dict() == {"epoch": 3, "batch": 1, "step": 11, "updates": 6}
    assert Progress.from_state_dict(progress.state_dict()) == progress
