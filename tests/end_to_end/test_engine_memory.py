"""What follows a growth, and what is let go."""

import gc
import weakref
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import growkit as gk
from growkit.train import Engine, Runtime, Settings

X = torch.linspace(-1, 1, 15).reshape(5, 3)


class Wrapper(nn.Module):
    """Sits in a reference cycle, and holds the parameters in a list, as DistributedDataParallel does."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner
        self.itself = [self]
        self.reducer = list(inner.parameters())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(inputs)


def build(width: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1))


def make_engine(callback: Any, **settings: Any) -> Engine:
    return Engine(
        build(),
        lambda model, batch: model(batch).square().mean(),
        [X] * 4,
        optimizers=lambda model: torch.optim.Adam(model.parameters()),
        settings=Settings(**settings),
        callbacks=[callback],
        services={"growth": gk.Growth(X)},
        runtime=Runtime(wrap=Wrapper, scaler=torch.amp.GradScaler("cpu", init_scale=2.0**7, growth_interval=3)),
        console=Console(quiet=True),
    )


@pytest.mark.report("R083")
@pytest.mark.report("R087")
@pytest.mark.parametrize("precision", [None, "fp16"])
def test_averages_and_scale_go_on_through_a_growth(precision: Any) -> None:
    seen: dict[str, Any] = {}

    def outputs() -> torch.Tensor:
        with engine.runtime.averaged() as model, torch.no_grad():
            return model(X)

    def callback(growth, step):
        if step == 2:
            seen["before"], seen["scaling"] = outputs(), engine.runtime.scaling
            change = growth.request("wide", widen={"0.weight[0]": 7})
            seen["after"] = outputs()
            return change

    engine = make_engine(callback, ema_decay=0.9, precision=precision)
    averages = engine.runtime.averages
    engine.fit(2)
    torch.testing.assert_close(seen["after"], seen["before"], rtol=1e-5, atol=1e-6)
    assert engine.runtime.averages is averages is engine.runtime.followers[0]
    assert averages.updates == engine.progress.updates == 8
    assert averages["0.weight"].shape == (7, 3)
    assert not torch.equal(averages["0.weight"], engine.model[0].weight)
    assert engine.runtime.scaling is seen["scaling"]
    if precision == "fp16":
        assert engine.runtime.scaling.scaler.state_dict()["scale"] == 2.0**9  # twice three steps without overflow


@pytest.mark.parametrize("precision", [None, "bf16", "fp16"])
def test_no_tensor_of_the_old_structure_stays_alive(precision: Any) -> None:
    old: list[weakref.ref[torch.Tensor]] = []

    def callback(growth, step):
        if step == 2:
            runtime = engine.runtime
            slots = [slot for state in runtime.optimizer.state.values() for slot in state.values() if slot.dim() > 0]
            tensors = [*runtime.model.parameters(), *runtime.averages.values(), *slots]
            old.extend(weakref.ref(tensor) for tensor in tensors if 4 in tensor.shape)
            del tensors, slots
            return growth.request("wide", widen={"0.weight[0]": 7})

    engine = make_engine(callback, ema_decay=0.9, precision=precision)
    engine.fit(1)
    gc.collect()
    assert len(old) == 3 * 4
    assert [one().shape for one in old if one() is not None] == []


def bytes_alive() -> int:
    """By `type`: some module members warn when they are asked for their class."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def test_before_a_growth_there_is_no_copy_of_the_grown_model() -> None:
    """Alive beside the small model, its gradients and moments there is nothing of the size that it is going to have."""
    wide, counted = 40_000, {}

    def callback(growth, step, model):
        counted[step] = bytes_alive()
        return growth.request("wide", widen={"0.weight[0]": wide}) if step == 2 else None

    start = bytes_alive()
    engine = make_engine(callback)
    engine.fit(1)
    grown = 4 * sum(parameter.numel() for parameter in engine.model.parameters())
    assert grown > 4 * 4 * wide
    assert max(counted[step] - start for step in (0, 1, 2)) < grown / 10
    assert counted[3] - start > grown


def test_a_loop_without_engine_grows_the_model_out_of_its_wrapper() -> None:
    runtime, model = Runtime(wrap=Wrapper), build()
    runtime.bind(model, torch.optim.Adam(model.parameters()))
    runtime.equip(precision=None, averages=True)
    runtime.rebuild()
    first = weakref.ref(runtime.wrapped)
    for step in range(4):
        if step == 2:
            with runtime.unwrapped() as raw:
                assert raw is runtime.wrapped is model
                gc.collect()
                assert first() is None
                gk.grow(
                    raw,
                    widen={"0.weight[0]": 7},
                    example_inputs=X,
                    optimizers=runtime.optimizer,
                    followers=runtime.followers,
                )
        assert isinstance(runtime.wrapped, Wrapper)
        runtime.clear_gradients()
        runtime.wrapped(X).square().mean().backward()
        runtime.optimizer.step()
        runtime.advance_averages(0.9)
    assert runtime.wrapped.reducer[0] is model[0].weight
    assert model[0].weight.shape == runtime.averages["0.weight"].shape == (7, 3)
