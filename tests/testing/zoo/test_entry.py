"""Tests of entries of the zoo."""

from __future__ import annotations

import torch
from torch import nn

from growkit.testing.zoo import ZOO
from growkit.testing.zoo.entry import EQUAL, Entry, Size


def _build(size: Size) -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(size(3), size(5)), nn.BatchNorm1d(size(5))), torch.randn(size(2), size(3))


def test_sizes_are_those_of_the_builder_or_all_equal() -> None:
    model, inputs = Entry("small", _build).make()
    assert [tuple(p.shape) for p in model.parameters()] == [(5, 3), (5,), (5,), (5,)]
    assert inputs.shape == (2, 3)
    model, inputs = Entry("small", _build).make(equal_sizes=True)
    assert {size for p in model.parameters() for size in p.shape} == {EQUAL} == set(inputs.shape)


def test_models_are_in_double_precision_away_from_their_initial_values_and_drawn_from_the_seed() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    model, inputs = Entry("small", _build).make()
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training
    assert {t.dtype for t in [*model.parameters(), inputs]} == {torch.float64}
    assert not torch.equal(model[1].weight, torch.ones(5).double())
    assert not torch.equal(model[1].running_mean, torch.zeros(5).double())
    again, _ = Entry("small", _build).make()
    other, _ = Entry("small", _build).make(seed=1)
    assert torch.equal(model[0].weight, again[0].weight)
    assert not torch.equal(model[0].weight, other[0].weight)


def test_names_are_unique() -> None:
    assert all(entry.name == name for name, entry in ZOO.items())
    assert len(ZOO) == 47
