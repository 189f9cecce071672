"""The Conformer by the names of its sizes."""

import copy

import pytest
import torch
from torch import nn

from growkit.errors import InputsError, NameLookupError, PlanError, SizeError
from growkit.nn import ConformerClassifier, ConformerEncoder
from growkit.ops.conformer import inputs_of, widen_conformer
from growkit.testing import assert_function_preserved, randomise


def encoder() -> ConformerEncoder:
    model = ConformerEncoder(5, 4, 6, 2, 2, 3, head_dim=3, conv_channels=5)
    return randomise(model.double())  # type: ignore[return-value]


def test_every_size_of_a_classifier() -> None:
    model = ConformerClassifier(encoder(), 3).double()
    before = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters())
    widen_conformer(model, model_dim=2.0, ffn_dim=9, num_heads=3, conv_channels=1.2, optimizers=optimizer)
    block = model.encoder.layers[1]
    assert model.encoder.model_dim == model.output.in_features == 8
    assert block.feed_forward1.ffn_dim == block.feed_forward2.linear2.in_features == 9
    assert block.attention.num_heads == 3
    assert block.convolution.conv_channels == block.convolution.depthwise.groups == 6
    assert {id(p) for p in optimizer.param_groups[0]["params"]} == {id(p) for p in model.parameters()}
    features = torch.randn(3, 9, 5)
    assert_function_preserved(before, model, (features, torch.tensor([9, 2, 5])))


def test_one_block_of_an_encoder() -> None:
    model = encoder()
    before = copy.deepcopy(model)
    widen_conformer(model.layers[1], ffn_dim=12, num_heads=4, conv_channels=7)
    assert model.layers[0].attention.num_heads == 2
    assert model.layers[1].attention.num_heads == 4
    assert_function_preserved(before, model, (torch.randn(2, 6, 5), torch.tensor([6, 4])))


def test_refusals() -> None:
    model = encoder()
    state = copy.deepcopy(model.state_dict())
    with pytest.raises(SizeError, match="multiple of 4"):
        widen_conformer(model, model_dim=6)
    with pytest.raises(SizeError, match="would shrink"):
        widen_conformer(model, ffn_dim=3)
    with pytest.raises(NameLookupError, match="'model_dim' fits no axis"):
        widen_conformer(model.layers[0], model_dim=8)
    with pytest.raises(PlanError, match="asks for nothing"):
        widen_conformer(model)
    with pytest.raises(InputsError, match="a Linear"):
        widen_conformer(nn.Linear(2, 2), ffn_dim=3)  # type: ignore[arg-type]
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_made_inputs_have_the_type_of_the_model(dtype: torch.dtype) -> None:
    model = encoder().to(dtype)
    assert inputs_of(model).args[0].dtype == dtype
    assert inputs_of(model.layers[0]).args[1].shape == (7, 4)
    widen_conformer(model, ffn_dim=8)
    assert model.layers[0].feed_forward1.linear1.weight.dtype == dtype
