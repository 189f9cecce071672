"""Copies that grow with the model."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from growkit import Insert, discover, grow, make_plan
from growkit.errors import PlanError
from growkit.growth.followers import as_followers
from growkit.growth.plan import Plan
from growkit.testing import assert_function_preserved, randomise
from tests.growth.nets import Tied, conformer, picture, residual, rows, utterances

GROWTH: dict[str, Any] = {
    "widen": {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7},
    "deepen": {"blocks": Insert(at=[0, 2])},
    "example_inputs": rows(),
}


def _other() -> nn.Module:
    """What an average of weights looks like: the same structure, other entries."""
    return randomise(residual(), seed=9)


def test_a_module_grows_by_the_same_maps() -> None:
    model, follower = residual(), _other()
    before = copy.deepcopy(follower)
    grow(model, followers=follower, **GROWTH)
    assert_function_preserved(before, follower, rows())
    assert [tuple(p.shape) for p in follower.parameters()] == [tuple(p.shape) for p in model.parameters()]
    assert not follower.blocks[3].down.weight.any()
    assert torch.equal(follower.blocks[0].up.weight[5:], model.blocks[0].up.weight[5:]), "one draw for both"


@pytest.mark.report("R083")
def test_an_average_goes_on_averaging() -> None:
    model = residual()
    average = AveragedModel(model)
    inner = average.module
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    average.update_parameters(model)
    before = copy.deepcopy(inner)
    grow(model, followers=average, **GROWTH)
    assert average.module is inner
    assert average.n_averaged == 1
    assert_function_preserved(before, inner, rows())
    average.update_parameters(model)
    assert average.n_averaged == 2
    for mean, now in zip(average.parameters(), model.parameters(), strict=True):
        assert mean.shape == now.shape


def test_a_mapping_of_tensors_grows_to_the_state_of_the_model() -> None:
    model, follower = residual(), _other()
    mapping = {name: tensor.clone() for name, tensor in follower.state_dict().items()}
    grow(model, followers=[mapping, follower], **GROWTH)
    expected = follower.state_dict()
    assert mapping.keys() == expected.keys() == model.state_dict().keys()
    for name, tensor in mapping.items():
        assert torch.equal(tensor, expected[name]), name


def test_a_mapping_of_some_of_the_tensors() -> None:
    model = residual()
    mapping = {"first.bias": torch.ones(4), "decay": torch.tensor(0.9), "blocks.1.up.bias": torch.ones(5)}
    grow(model, followers=mapping, **GROWTH)
    assert mapping["first.bias"].tolist() == [1.0] * 8
    assert mapping["decay"] == 0.9
    assert [name for name in mapping if name.startswith("blocks")] == ["blocks.2.up.bias", "blocks.3.up.bias"]


def test_a_mapping_with_both_names_of_a_tied_tensor() -> None:
    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.last = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)
            self.two.weight = self.one.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.tanh(self.one(x)) + self.two(x))

    model = randomise(Twins().double())
    mapping = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    grow(model, widen={"one.weight[0]": 7}, followers=mapping, example_inputs=rows())
    for name, tensor in model.state_dict().items():
        assert torch.equal(mapping[name], tensor), name


def test_a_conformer_with_its_buffers_and_numbers() -> None:
    model, follower = conformer(), randomise(conformer(), seed=5)
    before = copy.deepcopy(follower)
    widen = {"model_dim": 2.0, "num_heads": 3, "conv_channels": 6, "ffn_dim": 7}
    grow(model, widen=widen, deepen={"layers": 2}, followers=follower, example_inputs=utterances())
    assert_function_preserved(before, follower, utterances())
    assert follower.encoder.layers[0].attention.num_heads == 3


def test_a_mapping_has_no_norm_that_a_new_block_lacks() -> None:
    model = conformer()
    mapping = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    grow(model, deepen={"layers": 2}, followers=mapping, example_inputs=utterances())
    assert mapping.keys() == model.state_dict().keys()
    assert not any(name.startswith("encoder.layers.1.final_norm") for name in mapping)


def test_a_follower_keeps_its_own_dtype() -> None:
    model = residual().float()
    follower = copy.deepcopy(model).double()
    grow(model, followers=follower, **GROWTH | {"example_inputs": rows().float()})
    assert follower.first.weight.dtype == torch.float64
    torch.testing.assert_close(follower.blocks[1].up.weight.float(), model.blocks[1].up.weight, rtol=1e-6, atol=0)


def test_a_follower_given_twice_grows_once() -> None:
    model, follower = residual(), _other()
    grow(model, followers=[follower, AveragedModel(model), follower], **GROWTH)
    assert len(follower.blocks) == 4


@pytest.mark.parametrize(
    ("follower", "given"),
    [
        (3, "an object of type int"),
        ([3], "an object of type int"),
        (nn.Linear(3, 4), "a module Linear whose tensors differ"),
        (residual(hidden=6), "a module Residual whose tensors differ"),
        (nn.Sequential(residual()), "a module Sequential whose tensors differ"),
        ({"a": torch.ones(2)}, "a mapping with the keys ['a']"),
        ({"first.bias": torch.ones(5)}, "a mapping with the keys ['first.bias']"),
        ({}, "a mapping with the keys []"),
    ],
)
def test_what_does_not_follow_this_model_is_refused(follower: Any, given: str) -> None:
    with pytest.raises(PlanError) as error:
        as_followers(follower, _plan().fingerprint)
    assert given in error.value.given


def _plan() -> Plan:
    return make_plan(discover(residual(), rows()), deepen={"blocks": 3})


def test_wrappers_are_looked_into() -> None:
    model = residual()
    fingerprint = _plan().fingerprint
    average = AveragedModel(model)
    assert as_followers(average, fingerprint) == (average.module,)
    assert as_followers(None, fingerprint) == ()
    mapping: dict[str, Tensor] = dict(model.state_dict())
    (found,) = as_followers(mapping, fingerprint)
    assert found is mapping


def test_tied_models_fit_their_plans() -> None:
    model = Tied()
    plan = make_plan(discover(model, torch.tensor([[1, 2]])), {"up.weight[0]": 6})
    assert len(as_followers([copy.deepcopy(model), model.state_dict()], plan.fingerprint)) == 2


def test_a_follower_that_shares_tensors_with_the_model_is_refused() -> None:
    model = residual()
    shared = copy.deepcopy(model)
    shared.first.weight = model.first.weight
    before = picture(model)
    for follower in (model, shared, dict(model.named_parameters())):
        with pytest.raises(PlanError, match=r"that holds the model's own first.weight"):
            grow(model, widen={"first.weight[0]": 8}, followers=follower, example_inputs=rows())
    assert picture(model) == before
