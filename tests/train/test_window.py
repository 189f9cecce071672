"""The place of a unit of work in its window."""

import torch

from growkit.train.window import Window


def test_a_unit_counts_as_much_as_its_share_of_the_window() -> None:
    loss = torch.tensor(3.0)
    assert Window().scaled(loss) is loss
    assert float(Window(length=4).scaled(loss)) == 0.75
    assert float(Window(length=4, share=0.5).scaled(loss)) == 0.375


def test_only_the_first_and_the_last_split_open_and_close_a_window() -> None:
    batch = Window(first=True, last=True, length=2)
    assert batch.of_split(0.75, first=True, last=False) == Window(first=True, last=False, length=2, share=0.75)
    assert batch.of_split(0.25, first=False, last=True) == Window(first=False, last=True, length=2, share=0.25)
    inside = Window(first=False, last=False, length=2, share=0.5)
    assert inside.of_split(0.5, first=True, last=True) == Window(first=False, last=False, length=2, share=0.25)
