"""Parameters that the run never reads, and axes that they may belong to."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit import discover, grow, make_plan
from growkit.errors import GrowkitError, NameLookupError, PlanError
from growkit.testing import assert_function_preserved, randomise
from tests.growth.nets import picture, rows


class Masked(nn.Module):
    """Puts a learned vector where frames are masked, in training only; a head that is not used, of another size."""

    def __init__(self, width: int = 4):
        super().__init__()
        self.first, self.up, self.down = nn.Linear(3, width), nn.Linear(width, 6), nn.Linear(6, 2)
        self.mask = nn.Parameter(torch.zeros(width))
        self.spare = nn.Linear(7, 9)
        self.masking = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.masking:
            x = torch.where(torch.arange(len(x))[:, None] % 2 == 0, self.mask, x)
        return self.down(torch.tanh(self.up(x)))


LAYOUTS = {"mask": "stream:produces", "first.weight": "stream features"}


def masked() -> Masked:
    return randomise(Masked().double())


def test_what_may_belong_to_a_growing_axis_is_not_left_behind() -> None:
    model = masked()
    before = picture(model)
    text = r"the run never read mask, of 4 units in one dim.*axis 'first.weight\[0\]' \(4 -> 8\)"
    with pytest.raises(PlanError, match=text) as caught:
        grow(model, widen={"first.weight[0]": 8}, example_inputs=rows())
    assert "layouts={'mask': ...}" in caught.value.next_step
    assert "leave=['mask']" in caught.value.next_step
    assert picture(model) == before
    grow(model, widen={"up.weight[0]": 9}, example_inputs=rows())  # of which there are 6


def test_what_is_declared_grows_along() -> None:
    model, old = masked(), masked()
    report = grow(model, widen={"stream": 8}, example_inputs=rows(), layouts=LAYOUTS)
    assert model.mask.shape == (8,)
    assert report.table.unread == ("mask", "spare.weight", "spare.bias")
    model.masking = old.masking = True
    assert_function_preserved(old, model, rows())


def test_what_is_named_is_left_alone() -> None:
    model = masked()
    plan = make_plan(discover(model, rows()), {"first.weight[0]": 8}, leave=["m*"])
    grow(model, plan, example_inputs=rows())
    assert model.mask.shape == (4,)
    other = masked()
    grow(other, widen={"first.weight[0]": 8}, leave=("mask",), example_inputs=rows())
    assert other.mask.shape == (4,)


@pytest.mark.parametrize(
    ("leave", "kind", "text"),
    [
        (["msk"], NameLookupError, "leave='msk', which fits no parameter or buffer.*\n.*mask, spare.weight"),
        ("mask", PlanError, "leave='mask'"),
        ([3], PlanError, r"leave=\[3\]"),
    ],
)
def test_wrong_names_are_refused(leave: Any, kind: type[GrowkitError], text: str) -> None:
    with pytest.raises(kind, match=text):
        make_plan(discover(masked(), rows()), {"first.weight[0]": 8}, leave=leave)


def test_a_dim_made_of_growing_axes_counts_too() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.out, self.spare = nn.Linear(3, 12), nn.Linear(12, 2), nn.Linear(12, 5)
            self.size = 4

        def forward(self, x: Tensor) -> Tensor:
            x = self.q(x).view(len(x), -1, self.size)
            return self.out((x * x.softmax(-1)).flatten(1))

    model = randomise(Heads().double())
    with pytest.raises(PlanError, match="the run never read spare.weight, of 12 units"):
        grow(model, widen={"q.weight[0].0": 5}, example_inputs=rows())
