"""Tests that a model is as before."""

from __future__ import annotations

import gc
import random
import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from growkit.discovery.discover import discover
from growkit.discovery.untouched import State, untouched, unwrap
from growkit.errors import InputsError
from growkit.nn.contents import Contents
from tests.discovery.models import FRAMES, Small, X, conformer, reasons


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


class Writing(nn.Module):
    """Writes to parameters, containers and numpy's random state in its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 5, max_norm=0.5)
        self.layer, self.out = nn.Linear(5, 4), nn.Linear(4, 3)
        self.log, self.cache, self.seen, self.nested = ["before"], {1: "one"}, {1}, {"deep": [1]}

    def forward(self, ids: Tensor) -> Tensor:
        self.layer.weight.data.mul_(0.9)
        self.log.append("call")
        self.cache[ids.shape[0]] = "two"
        self.seen.add(ids.shape[1])
        self.nested["deep"].append(2)
        np.random.rand()
        return self.out(self.layer(self.table(ids)))


IDS = torch.arange(6).view(2, 3)


def test_parameters_and_containers_that_the_forward_pass_changes_are_as_before() -> None:
    model = Writing().double()
    before, containers = _state(model), [model.log, model.cache, model.seen, model.nested]
    random_state = np.random.get_state()[2]
    table = discover(model, IDS)
    _check_same(model, before)
    assert [model.log, model.cache, model.seen, model.nested] == [["before"], {1: "one"}, {1}, {"deep": [1]}]
    assert all(now is old for now, old in zip((model.log, model.cache, model.seen), containers, strict=False))
    assert {type(key) for key in (*model.cache, *model.seen)} == {int}
    assert np.random.get_state()[2] == random_state
    assert "the forward pass writes to a parameter of it" in reasons(table, "layer.weight[0]")
    assert reasons(table, "out.weight[0]") == []


def test_a_state_is_had_again_after_each_of_several_runs() -> None:
    model = Writing().double()
    before, random_state = _state(model), np.random.get_state()[2]
    state = State(Contents(model))
    for watched in (True, False, True):
        with torch.no_grad(), state.untouched(watched) as originals:
            if not watched:
                originals.keep([model.layer.weight, model.table.weight])
            model.left = model(IDS)
        _check_same(model, before)
        assert [model.log, model.cache, model.seen, model.nested] == [["before"], {1: "one"}, {1}, {"deep": [1]}]
        assert not hasattr(model, "left")
        assert np.random.get_state()[2] == random_state
        assert model.training


def test_what_was_put_back_is_put_back_whole_although_a_part_fails() -> None:
    class Stubborn(dict[str, int]):
        def clear(self) -> None:
            raise RuntimeError("no")

    model = nn.Sequential(nn.Linear(5, 4), Small(lambda m, x: m.kept.update(a=1) or x, kept=Stubborn()), nn.Dropout())
    with pytest.raises(RuntimeError, match="no"):
        discover(model.double(), X)
    assert all(module.training for module in model.modules())
    assert type(model[0].in_features) is int


def test_scripted_children_are_left_alone_and_locked() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(nn.Linear(8, 7))
    model = nn.Sequential(nn.Linear(5, 8), scripted, nn.Linear(7, 3), nn.ReLU(), nn.Linear(3, 2)).train()
    table = discover(model, X.float())
    assert all(module.training for module in model.modules())
    assert type(model[0].in_features) is int
    assert reasons(table, "0.weight[0]") == ["a scripted module computes it"]
    assert "a scripted module holds it, which cannot be changed" in reasons(table, "1.weight[0]")
    assert reasons(table, "2.weight[0]") == []


@pytest.mark.parametrize("model", [nn.Linear, None, {"weight": torch.ones(2)}])
def test_what_is_no_module_is_refused(model: object) -> None:
    with pytest.raises(InputsError, match="a model of type"):
        discover(model, X)  # type: ignore[arg-type]


@pytest.mark.parametrize("few", [True, False])
def test_parameters_that_share_memory_are_put_back(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of recurrent layers on a GPU; few are copied before the run, of more those that an op writes."""
    if not few:
        monkeypatch.setattr("growkit.discovery.untouched._FEW_BYTES", 0)
    memory = torch.arange(4.0)
    model = nn.Module()
    model.first, model.second = nn.Parameter(memory[:2]), nn.Parameter(memory[2:])
    with untouched(model), torch.no_grad():
        model.first.add_(1.0)
        model.second.mul_(2.0)
    assert memory.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_garbage_is_collected_again_afterwards() -> None:
    with pytest.raises(InputsError):
        discover(nn.Linear(2, 3), torch.zeros(1, 5))
    assert gc.isenabled()
