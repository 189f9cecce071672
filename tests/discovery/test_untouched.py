"""Tests that a model is as before."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from growkit.discovery.discover import discover
from growkit.discovery.untouched import untouched, unwrap
from growkit.errors import InputsError
from tests.discovery.models import FRAMES, Small, X, conformer


class Restless(nn.Module):
    """Changes everything it can reach in its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(5, 4), 0
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("last", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen_width = x.shape[-1]
        self.total += 1.0
        self.last = x.sum().reshape(1)
        random.random()
        return self.layer(x) + torch.rand(4)


def _state(model: nn.Module) -> dict[str, tuple[int, Tensor]]:
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {name: (id(tensor), tensor.detach().clone()) for name, tensor in tensors}


def _check_same(model: nn.Module, before: dict[str, tuple[int, Tensor]]) -> None:
    after = _state(model)
    assert list(after) == list(before)
    for name, (identity, value) in before.items():
        assert after[name][0] == identity
        assert torch.equal(after[name][1], value)


@pytest.mark.parametrize("fails", [False, True])
def test_discovery_leaves_no_trace(fails: bool) -> None:
    model = Restless().double()
    model.layer.eval()
    before, attributes = _state(model), list(vars(model))
    torch.manual_seed(3)
    random.seed(3)
    states = torch.get_rng_state(), random.getstate()
    if fails:
        with pytest.raises(InputsError):
            discover(model, X[..., :2])
    else:
        discover(model, X)
    _check_same(model, before)
    assert [model.training, model.layer.training] == [True, False]
    assert (list(vars(model)), type(model.calls), model.calls) == (attributes, int, 0)
    assert type(model.layer.in_features) is int
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert not module_hooks._global_forward_hooks
    assert not module_hooks._global_forward_pre_hooks
    assert torch.is_grad_enabled()
    assert torch.backends.mha.get_fastpath_enabled()
    assert type(X.shape[0]) is int


def test_a_conformer_in_training_mode_is_as_before() -> None:
    model = conformer(dropout=0.1).double().train()  # type: ignore[arg-type]
    before = _state(model)
    discover(model, FRAMES)
    _check_same(model, before)
    assert all(module.training for module in model.modules())


def test_it_evaluates_inside() -> None:
    model = nn.Sequential(nn.Dropout(0.5))
    with untouched(model):
        assert not model[0].training
    assert model[0].training


def test_padded_places_of_an_encoder_are_computed_as_in_training() -> None:
    """With torch's fast path they would be zero, and an output in float32 be far from one in float64."""
    layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 1)
    padding = torch.tensor([[False, False, True]])
    x = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))
    expected = model.train()(x, src_key_padding_mask=padding)
    with untouched(model), torch.no_grad():
        torch.testing.assert_close(model(x, src_key_padding_mask=padding), expected)
    assert torch.backends.mha.get_fastpath_enabled()


def test_compiled_models_are_unwrapped() -> None:
    raw = nn.Linear(5, 4)
    assert unwrap(torch.compile(raw, backend="eager")) is raw
    assert unwrap(raw) is raw


def test_wrappers_for_several_devices_are_refused() -> None:
    class DistributedDataParallel(nn.Module):
        def __init__(self, module: nn.Module):
            super().__init__()
            self.module = module

    with pytest.raises(InputsError) as caught:
        discover(Small(lambda m, x: m.inner(x), inner=DistributedDataParallel(nn.Linear(5, 4))), X)
    assert caught.value.given == "inner is wrapped by DistributedDataParallel"
    assert "model.module" in caught.value.next_step
