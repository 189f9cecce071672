"""Running averages of weights."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError, SettingsError
from growkit.train import Runtime, Settings, StepCallbackReturn
from growkit.train.averages import Averages


class Tied(nn.Module):
    """A tied weight, buffers of all kinds, weights of half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.low = nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("mask", torch.full((2,), -torch.inf))
        self.register_buffer("cache", torch.ones(2), persistent=False)


def test_what_is_averaged() -> None:
    averages = Averages(Tied())
    assert list(averages) == [
        "low",
        "first.weight",
        "first.bias",
        "second.bias",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
    ]
    assert {name for name, tensor in averages.items() if tensor.dtype != torch.float32} == set()


def test_small_changes_of_half_precision_weights_are_not_lost() -> None:
    model = Tied()
    averages = Averages(model)
    averages.updates = 10**6
    with torch.no_grad():
        model.low.fill_(2)
    averages.advance(model, 0.999)
    torch.testing.assert_close(averages["low"], torch.full((2,), 1.001))


def test_buffers_that_are_replaced_are_seen() -> None:
    model = nn.BatchNorm1d(1)
    averages = Averages(model)
    averages.advance(model, 0.5)
    model.running_mean = torch.tensor([11.0])
    averages.advance(model, 0.5)  # (1 + 1) / (10 + 1) of the old value 0
    torch.testing.assert_close(averages["running_mean"], torch.tensor([9.0]))


@pytest.mark.report("R083")
@pytest.mark.parametrize("skip", [False, True])
def test_averages_equal_those_of_a_loop_by_hand(
    make_net: Any, make_engine: Any, batches: Any, loss_of: Any, skip: bool
) -> None:
    """Once per update, not per batch, and not for steps that are left out; with a short decay at the start."""

    def train_step(model, batch, step):
        return loss_of(model, batch) * (float("nan") if skip and step < 2 else 1)

    net = make_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    average = [p.detach().clone() for p in net.parameters()]
    updates = 0
    for start in range(2 if skip else 0, 5, 2):
        part = batches[start : start + 2]
        optimizer.zero_grad()
        for batch in part:
            (loss_of(net, batch) / len(part)).backward()
        optimizer.step()
        decay = min(0.15, (1 + updates) / (10 + updates))
        updates += 1
        with torch.no_grad():
            for mean, parameter in zip(average, net.parameters(), strict=True):
                mean.lerp_(parameter, 1 - decay)
    engine = make_engine(train_step=train_step, settings=Settings(accumulate_steps=2, ema_decay=0.15, nonfinite="skip"))
    engine.fit(1)
    averages = engine.runtime.averages
    assert averages.updates == updates == (2 if skip else 3)
    assert all(torch.equal(one, other) for one, other in zip(averages.values(), average, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(engine.model.parameters(), net.parameters(), strict=True))


@pytest.mark.report("R084")
def test_averages_are_swapped_in_and_out(make_engine: Any, batches: Any, loss_of: Any) -> None:
    engine = make_engine(settings=Settings(ema_decay=0.9), eval_step=loss_of, eval_data=batches)
    engine.fit(1)
    own = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    with engine.runtime.averaged() as model:
        expected = torch.stack([loss_of(model, batch) for batch in batches]).mean().item()
        assert all(torch.equal(tensor, engine.runtime.averages[name]) for name, tensor in model.state_dict().items())
        for forbidden in (engine.runtime.state_dict, lambda: engine.fit(2), lambda: engine.runtime.check_updates({})):
            with pytest.raises(EngineError, match="while the model has averages for weights"):
                forbidden()
    assert all(torch.equal(tensor, own[name]) for name, tensor in engine.model.state_dict().items())
    assert engine.evaluate(average=True)["loss"] == pytest.approx(expected, rel=1e-12)
    assert engine.evaluations[-1]["eval_average_loss"] == pytest.approx(expected, rel=1e-12)
    assert engine.evaluate()["loss"] != pytest.approx(expected, rel=1e-3)
    assert all(torch.equal(tensor, own[name]) for name, tensor in engine.model.state_dict().items())


def test_an_error_inside_leaves_the_model_its_own_weights(make_engine: Any) -> None:
    engine = make_engine(settings=Settings(ema_decay=0.9))
    engine.fit(1)
    own = engine.model[0].weight.detach().clone()
    with pytest.raises(KeyError), engine.runtime.averaged():
        raise KeyError
    assert torch.equal(engine.model[0].weight, own)
    engine.fit(2)


def test_a_run_without_averages_says_how_to_get_them(make_engine: Any) -> None:
    engine = make_engine()
    with pytest.raises(EngineError, match="averages of a run that keeps none"), engine.runtime.averaged():
        pass
    with pytest.raises(SettingsError):
        engine.runtime.check_updates({"ema_decay": 0.5})


def test_a_change_that_the_averages_did_not_follow_is_refused(make_engine: Any, service: Any) -> None:
    def callback(step, model):
        if step == 1:
            service.widen(7)
            return StepCallbackReturn(updated_model=model)

    engine = make_engine(settings=Settings(ema_decay=0.9), callbacks=[callback], services={"service": service})
    with pytest.raises(EngineError, match=r"did not follow the model: 0\.weight, 0\.bias, 2\.weight"):
        engine.fit(1)


def test_with_a_new_instance_averages_go_on_where_names_and_shapes_agree(
    make_net: Callable[..., nn.Module], make_engine: Any
) -> None:
    seen: dict[str, Any] = {}

    def callback(step, model):
        if step == 2:
            seen.update({name: tensor.clone() for name, tensor in engine.runtime.averages.items()})
            new = make_net(7)
            new[2].bias.data.copy_(model[2].bias)
            return StepCallbackReturn(updated_model=new, optimizer_state="reset")

    engine = make_engine(settings=Settings(ema_decay=0.9), callbacks=[callback])
    engine.fit(max_steps=2)
    fresh = make_net(7)
    assert engine.progress.step == 2
    engine.fit(max_steps=3)
    averages = engine.runtime.averages
    decay = (1 + 2) / (10 + 2)
    for name, parameter in engine.model.named_parameters():
        start = seen[name] if name == "2.bias" else fresh.get_parameter(name).detach()
        torch.testing.assert_close(averages[name], start * decay + parameter.detach() * (1 - decay))


def test_state_goes_there_and_back(make_net: Callable[..., nn.Module]) -> None:
    model = make_net()
    averages, other = Averages(model), Averages(make_net(seed=1))
    averages.advance(model, 0.9)
    held = dict(other)
    other.load_state_dict(averages.state_dict())
    assert other.updates == 1
    assert all(torch.equal(other[name], tensor) and other[name] is held[name] for name, tensor in averages.items())
    with pytest.raises(EngineError, match=r"differs from the model in 0\.weight"):
        Averages(make_net(7)).load_state_dict(averages.state_dict())


def test_a_runtime_keeps_averages_in_a_loop_without_engine(make_net: Any, batches: Any, loss_of: Any) -> None:
    runtime, net = Runtime(), make_net()
    runtime.bind(net, torch.optim.SGD(net.parameters(), lr=0.1))
    runtime.equip(precision=None, averages=True)
    before = net[0].weight.detach().clone()
    loss_of(net, batches[0]).backward()
    runtime.optimizer.step()
    runtime.advance_averages(0.5)
    torch.testing.assert_close(runtime.averages["0.weight"], before * 0.1 + net[0].weight * 0.9)
