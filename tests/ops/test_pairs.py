"""Pairs of layers by hand: the function of the whole model is kept, and what does not fit is refused."""

import copy

import pytest
import torch
from torch import nn

from growkit.errors import AxisLockedError, InputsError, SizeError
from growkit.ops import widen_conv, widen_linear
from growkit.testing import assert_function_preserved, randomise


@pytest.mark.parametrize("method", [None, "copy", "fresh", "net2net", "zero_pad"])
def test_linear(method: str | None) -> None:
    model = randomise(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3)).double())
    before = copy.deepcopy(model)
    report = widen_linear(model[0], model[3], 7, model[1:3], method=method)
    assert report.plan.width[0].method == (method or "fresh")
    assert (model[0].out_features, model[3].in_features) == (7, 7)
    assert_function_preserved(before, model, torch.randn(6, 5))


CONVOLUTIONAL = {
    "conv": (nn.Conv2d(2, 4, 3), [nn.BatchNorm2d(4), nn.ReLU()], nn.Conv2d(4, 3, 3), (2, 7, 7)),
    "strided 1d": (nn.Conv1d(2, 4, 3, stride=2, bias=False), [nn.ReLU()], nn.Conv1d(4, 3, 2), (2, 9)),
    "transposed": (nn.ConvTranspose2d(2, 4, 2), [nn.ReLU()], nn.Conv2d(4, 3, 3), (2, 5, 5)),
    "flattened": (nn.Conv2d(2, 4, 3, padding=1), [nn.ReLU(), nn.MaxPool2d(2)], nn.Linear(4 * 9, 3), (2, 6, 6)),
}


@pytest.mark.parametrize("name", CONVOLUTIONAL)
@pytest.mark.parametrize("method", [None, "copy", "net2net"])
def test_conv(name: str, method: str | None) -> None:
    first, between, second, shape = CONVOLUTIONAL[name]
    flat = [nn.Flatten()] if isinstance(second, nn.Linear) else []
    model = randomise(copy.deepcopy(nn.Sequential(first, *between, *flat, second)).double())
    before = copy.deepcopy(model)
    report = widen_conv(model[0], model[-1], 7, model[1 : 1 + len(between)], method=method)
    assert report.verification is not None
    assert model[0].out_channels == 7
    assert_function_preserved(before, model, torch.randn(2, *shape))


def test_a_depthwise_second_keeps_its_old_channels_in_front() -> None:
    first, second = nn.Conv1d(2, 3, 1), nn.Conv1d(3, 3, 3, groups=3)
    randomise(nn.ModuleList([first, second]).double())
    x = torch.randn(2, 2, 6, dtype=torch.float64)
    before = second(first(x))
    report = widen_conv(first, second, 5)
    after = second(first(x))
    assert (second.groups, second.in_channels, second.out_channels) == (5, 5, 5)
    assert after.shape == (2, 5, 4)
    torch.testing.assert_close(after[:, :3], before, rtol=0, atol=1e-14)
    assert report.warnings == ("'first.weight[0]' is an output of the model: 5 units, the first 3 as before",)


def test_optimizer_and_followers_go_along() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(3, 2), nn.Linear(2, 1)
    averaged = (copy.deepcopy(first), copy.deepcopy(second))
    other = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([*first.parameters(), other, *second.parameters()])
    second(first(torch.randn(4, 3))).sum().backward()
    optimizer.step()
    moment = optimizer.state[second.weight]["exp_avg"].clone()
    report = widen_linear(first, second, 4, optimizers=optimizer, followers=[averaged], method="copy")
    assert optimizer.param_groups[0]["params"][0] is first.weight
    assert optimizer.param_groups[0]["params"][2] is other
    assert torch.equal(optimizer.state[second.weight]["exp_avg"], torch.cat([moment, moment], 1))
    assert torch.equal(averaged[1].weight[:, :2], averaged[1].weight[:, 2:])
    assert averaged[0].weight.shape == (4, 3)
    assert report.foreign == ("param_groups[0]['params'][2]",)


def test_what_stands_between_may_forbid_it() -> None:
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    weight = first.weight
    with pytest.raises(SizeError, match="multiple of 4: 8, 12, 16"):
        widen_linear(first, second, 6, [nn.LayerNorm(4)], method="copy")
    with pytest.raises(AxisLockedError, match="softmax"):
        widen_linear(first, second, 8, [nn.Softmax(-1)])
    assert first.weight is weight


def test_a_factor() -> None:
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    widen_linear(first, second, 1.5)
    assert first.out_features == 6


def test_layers_of_another_type_are_named() -> None:
    with pytest.raises(InputsError, match="as first, a Conv1d"):
        widen_linear(nn.Conv1d(3, 4, 1), nn.Linear(4, 2), 6)  # type: ignore[arg-type]
    with pytest.raises(InputsError, match="as first, a Linear"):
        widen_conv(nn.Linear(3, 4), nn.Linear(4, 2), 6)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [2, True, 3, 1.3, "6"])
def test_no_width(width: object) -> None:
    with pytest.raises(SizeError):
        widen_linear(nn.Linear(3, 4), nn.Linear(4, 2), width)  # type: ignore[arg-type]


def test_layers_that_do_not_fit() -> None:
    with pytest.raises(InputsError, match="Chain raises RuntimeError"):
        widen_linear(nn.Linear(3, 4), nn.Linear(5, 2), 6)
    with pytest.raises(InputsError, match="equal sides up to 64"):
        widen_conv(nn.Conv2d(1, 4, 3), nn.Linear(4 * 6, 2), 6)


def test_inputs_with_unequal_sides_can_be_given() -> None:
    first, second = nn.Conv2d(1, 4, 3), nn.Linear(4 * 2 * 3, 2)
    report = widen_conv(first, second, 6, example_inputs=torch.randn(2, 1, 4, 5))
    assert second.in_features == 36
    assert report.verification is not None


def test_arguments_of_other_types_are_named() -> None:
    with pytest.raises(InputsError, match="between=ReLU"):
        widen_linear(nn.Linear(3, 4), nn.Linear(4, 2), 6, nn.ReLU())  # type: ignore[arg-type]
    with pytest.raises(InputsError, match="a layer of type NoneType"):
        widen_linear(nn.Linear(3, 4), None, 6)  # type: ignore[arg-type]
