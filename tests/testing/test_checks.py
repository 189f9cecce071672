"""The assertions can fail."""

import copy

import pytest
import torch
from torch import nn

from growkit import Inputs, grow
from growkit.testing import assert_function_preserved, assert_unchanged
from tests.growth.nets import conformer, picture, residual, rows, utterances


def test_an_exact_growth_passes_and_nothing_is_changed() -> None:
    before, after = residual(), residual()
    grow(after, widen={"first.weight[0]": 2.0}, example_inputs=rows())
    pictures = picture(before), picture(after)
    assert_function_preserved(before, after, rows())
    assert (picture(before), picture(after)) == pictures


def test_a_wrong_growth_is_caught_and_located() -> None:
    """The classic fault: a unit is copied, and what reads it is not divided."""
    before, after = residual(), residual()
    grow(after, widen={"blocks.0.up.weight[0]": 10}, method="copy", example_inputs=rows())
    with torch.no_grad():
        after.blocks[0].down.weight.mul_(2)
    with pytest.raises(AssertionError, match=r"NOT kept.*first at blocks\.0\.down"):
        assert_function_preserved(before, after, rows())


def test_a_deviation_that_float32_hides_is_caught() -> None:
    before = residual().float()
    after = copy.deepcopy(before)
    after.last.bias.data[0] = torch.nextafter(after.last.bias.data[0], torch.tensor(9.0))
    with pytest.raises(AssertionError, match="NOT kept"):
        assert_function_preserved(before, after, rows().float())
    assert_function_preserved(before, after, rows().float(), tolerance=1e-6)


def test_models_in_low_precision_are_compared_with_the_weights_they_have() -> None:
    before = conformer().to(torch.bfloat16)
    features, lengths = utterances()
    after = copy.deepcopy(before)
    for inputs in ((features.to(torch.bfloat16), lengths), Inputs(features.to(torch.bfloat16), lengths=lengths)):
        assert_function_preserved(before, after, inputs)
    with torch.no_grad():
        after.output.bias.add_(0.1)
    with pytest.raises(AssertionError):
        assert_function_preserved(before, after, (features, lengths))


def test_another_entry_than_forward() -> None:
    def first(model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return model.first(inputs["x"])

    before, after = residual(), residual()
    with torch.no_grad():
        after.last.bias.add_(1)
    assert_function_preserved(before, after, {"x": rows()}, call=first)


def test_unchanged_means_bit_equal() -> None:
    model = residual()
    state = copy.deepcopy(model.state_dict())
    assert_unchanged(model, state)
    with torch.no_grad():
        model.last.bias[0] = torch.nextafter(model.last.bias[0], torch.tensor(9.0, dtype=torch.float64))
    with pytest.raises(AssertionError, match=r"last\.bias changed"):
        assert_unchanged(model, state)
    with pytest.raises(AssertionError, match="changed its dtype"):
        assert_unchanged(residual().float(), state)
    with pytest.raises(AssertionError, match=r"tensors differ: \['last\.bias'\]"):
        assert_unchanged(model, {name: tensor for name, tensor in state.items() if name != "last.bias"})
