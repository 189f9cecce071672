"""Tests of tensors that the traced run does not read: they grow where their layout is declared."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import growkit as gk
from growkit.errors import VerificationError
from growkit.growth.plan import Plan

ROWS = torch.randn(5, 3, dtype=torch.float64)


class Masked(nn.Module):
    """Training replaces every second row by an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = nn.Parameter(torch.randn(4))
        self.never = nn.Parameter(torch.randn(4))
        self.other = nn.Parameter(torch.randn(9))
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.training:
            x = torch.where(torch.arange(len(x))[:, None] % 2 == 0, x, self.mask)
        return self.second(x)


DECLARED = {"mask": "first.weight[0]:produces"}
LEFT = ["never"]


def test_what_stays_as_it_is_is_told_and_named_where_training_fails() -> None:
    model = Masked().double()
    plan = gk.make_plan(gk.discover(model, ROWS), {"first.weight[0]": 7}, leave=["mask", "never"])
    assert plan.unread == plan.left_alone == ("mask", "never")
    (warning,) = (text for text in plan.warnings if "not read" in text)
    assert warning == (
        "mask, never were not read and stay as they are; to let it grow along, declare it: "
        "layouts={'mask': 'first.weight[0]:produces'}"
    )
    with pytest.raises(VerificationError, match=r"layouts=.'mask': 'first.weight\[0\]:produces'"):
        gk.grow(model, plan, example_inputs=ROWS)
    assert model.mask.shape == (4,)


@pytest.mark.parametrize("method", ["copy", "fresh", "zero_pad"])
def test_what_is_declared_grows_along(method: str) -> None:
    model = Masked().double()
    before = {training: model.train(training)(ROWS).detach() for training in (True, False)}
    plan = gk.make_plan(gk.discover(model, ROWS, layouts=DECLARED), {"first.weight[0]": 7}, method=method, leave=LEFT)
    assert (plan.unread, plan.left_alone) == (("mask", "never"), ("never",))
    gk.grow(model, plan, example_inputs=ROWS)  # the plan knows, so that the layouts need not be given again
    assert (model.mask.shape, model.never.shape) == ((7,), (4,))
    for training, old in before.items():
        new = model.train(training)(ROWS).detach()
        assert float((new - old).abs().max() / old.abs().max()) <= 1e-12


def test_a_plan_keeps_what_was_not_read() -> None:
    plan = gk.make_plan(gk.discover(Masked(), ROWS.float(), layouts=DECLARED), {"first.weight[0]": 7}, leave=LEFT)
    assert Plan.from_json(plan.to_json()) == plan
