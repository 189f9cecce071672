"""Does a plan fit a model?"""

import pytest
import torch
from torch import nn

from growkit import discover
from growkit.errors import PlanError
from growkit.growth.fingerprint import (
    check_fingerprint,
    fingerprint_of,
    read_number,
)
from growkit.nn.contents import module_types, tensors_of
from tests.growth.nets import Tied, conformer, residual, rows, utterances


def test_every_model_fits_its_own_fingerprint() -> None:
    for model, inputs in ((residual(), rows()), (conformer(2), utterances()), (Tied(), torch.tensor([[1, 2]]))):
        fingerprint = fingerprint_of(discover(model, inputs))
        check_fingerprint(model, fingerprint)
        assert set(fingerprint.tensors) == set(tensors_of(model))
        assert fingerprint.modules == module_types(model)


def _wider(model: nn.Module) -> None:
    model.first = nn.Linear(3, 6)


def _without_bias(model: nn.Module) -> None:
    model.last.bias = None


def _another_norm(model: nn.Module) -> None:
    norm = nn.GroupNorm(1, 4)
    model.blocks[0].norm = norm


def _another_number(model: nn.Module) -> None:
    model.first.out_features = 9


def _more(model: nn.Module) -> None:
    model.register_buffer("extra", torch.zeros(2))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (_wider, "tensor 'first.weight': the plan says (4, 3), the model has (6, 3)"),
        (_without_bias, "tensor 'last.bias' is missing"),
        (_another_norm, "the plan says torch.nn.modules.normalization.LayerNorm, the model has"),
        (_another_number, "number first.out_features: the plan says 4, the model has 9"),
        (_more, "tensor 'extra' is not in the plan"),
    ],
)
def test_differences_are_named(change: object, difference: str) -> None:
    model = residual()
    fingerprint = fingerprint_of(discover(model, rows()))
    assert callable(change)
    change(model)
    with pytest.raises(PlanError) as error:
        check_fingerprint(model, fingerprint)
    assert difference in error.value.given


def test_many_differences_are_counted() -> None:
    fingerprint = fingerprint_of(discover(residual(), rows()))
    with pytest.raises(PlanError, match=r"\(and \d+ more\)"):
        check_fingerprint(residual(width=6), fingerprint)


def test_numbers_are_read_where_they_are() -> None:
    model = residual()
    assert read_number(model, "blocks.0.norm.normalized_shape", 0) == 4
    assert read_number(model, "first.out_features", None) == 4
    for path, index in (
        ("nothing.here", None),
        ("first.nothing", None),
        ("first.nothing", 0),
        ("first.out_features", 0),
    ):
        assert read_number(model, path, index) is None
    assert read_number(model, "blocks.0.norm.normalized_shape", 5) is None
