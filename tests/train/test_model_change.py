"""Changes in force: settings, the model changed in place, a new model."""

import gc
import io
import weakref
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.optim.lr_scheduler import StepLR

from growkit.errors import EngineError, SettingsError
from growkit.train import Runtime, Settings, StepCallbackReturn


class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any) -> Any:
        return self.inner(*inputs)


def at(step: int, change: Any) -> Any:
    """A callback that returns `change(offered)` before one step."""
    return lambda **offered: change(offered) if offered["step"] == step else None


def recorded_rates(engine: Any, steps: int) -> list[float]:
    """The rates with which the optimizer stepped."""
    rates: list[float] = []
    engine.optimizer.register_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    engine.fit(max_steps=steps)
    return rates


@pytest.mark.parametrize(
    ("schedulers", "rates"),
    [
        ([], [0.05, 0.05, 0.05, 0.8, 0.8]),
        ([lambda optimizer: StepLR(optimizer, 2, gamma=0.5)], [0.05, 0.05, 0.025, 0.4, 0.2]),
    ],
    ids=["without a scheduler", "with a scheduler"],
)
def test_a_learning_rate_acts_on_the_very_next_step(make_engine: Any, schedulers: Any, rates: list[float]) -> None:
    change = at(3, lambda _: StepCallbackReturn(config_updates={"learning_rate": 0.8}))
    engine = make_engine(callbacks=[change], runtime=Runtime(schedulers=schedulers))
    assert recorded_rates(engine, 5) == rates


def test_one_wrong_update_refuses_all(make_engine: Any) -> None:
    updates = {"learning_rate": 0.8, "accumulate_steps": 3, "gradient_clip_nrm": 1.0}
    engine = make_engine(callbacks=[at(1, lambda _: StepCallbackReturn(config_updates=updates))])
    with pytest.raises(SettingsError) as caught:
        engine.fit(1)
    assert caught.value.next_step == "write 'gradient_clip_norm'"
    assert engine.settings == Settings()
    assert engine.optimizer.param_groups[0]["lr"] == 0.05


def test_a_new_model_is_not_taken_where_an_update_is_wrong(make_engine: Any, make_net: Any) -> None:
    change = at(1, lambda _: StepCallbackReturn(updated_model=make_net(seed=1), config_updates={"lr": 1}))
    engine = make_engine(callbacks=[change])
    model = engine.model
    with pytest.raises(SettingsError):
        engine.fit(1)
    assert engine.model is model
    assert [id(p) for p in engine.optimizer.param_groups[0]["params"]] == [id(p) for p in model.parameters()]
    assert {id(p) for p in engine.optimizer.state} == {id(p) for p in model.parameters()}


@pytest.mark.report("R093")
def test_a_model_changed_in_place_is_wrapped_anew_and_the_old_wrapper_freed(make_engine: Any, service: Any) -> None:
    output = io.StringIO()
    wrappers: list[weakref.ref[nn.Module]] = []

    def wrap(net: nn.Module) -> nn.Module:
        wrapper = Wrapper(net)
        wrappers.append(weakref.ref(wrapper))
        return wrapper

    def grow(offered: dict[str, Any]) -> StepCallbackReturn:
        offered["growth"].widen(8)
        return StepCallbackReturn(updated_model=offered["model"])

    engine = make_engine(
        callbacks=[at(2, grow)], services={"growth": service}, runtime=Runtime(wrap=wrap), console=Console(file=output)
    )
    model = engine.model
    engine.fit(max_steps=3)
    gc.collect()
    assert engine.model is model
    assert [reference() is None for reference in wrappers] == [True, False]
    assert engine.runtime.wrapped.inner[0].weight.shape == (8, 3)
    assert "step 2: model changed: 26 -> 41 parameters\n" in output.getvalue()
    assert service.calls == ["attach"]


def test_a_model_changed_in_place_without_its_optimizer_is_an_error(make_engine: Any) -> None:
    def replace(offered: dict[str, Any]) -> StepCallbackReturn:
        layer = offered["model"][0]
        layer.weight = nn.Parameter(layer.weight.detach().clone())
        return StepCallbackReturn(updated_model=offered["model"])

    with pytest.raises(EngineError, match=r"the optimizer still holds parameters .*: 0\.weight"):
        make_engine(callbacks=[at(1, replace)]).fit(1)


def test_a_new_instance_goes_on_with_the_old_moments(make_engine: Any, make_net: Any, service: Any) -> None:
    """A copy of the model, handed over in the middle, changes nothing; schedulers go on too."""

    def copied(offered: dict[str, Any]) -> StepCallbackReturn:
        new = make_net(seed=1)
        new.load_state_dict(offered["model"].state_dict())
        return StepCallbackReturn(updated_model=new)

    def fitted(callbacks: list[Any]) -> Any:
        runtime = Runtime(schedulers=[lambda optimizer: StepLR(optimizer, 2, gamma=0.5)], wrap=Wrapper)
        engine = make_engine(callbacks=callbacks, runtime=runtime, services={"growth": service})
        engine.fit(2)
        return engine

    with_change, without = fitted([at(3, copied)]), fitted([])
    for one, other in zip(with_change.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert service.calls == ["attach", "attach", "attach"]
    assert service.runtime is without.runtime


def test_a_new_instance_of_other_shapes_is_refused_and_taken_with_reset(make_engine: Any, make_net: Any) -> None:
    for optimizer_state, refused in (("transfer", True), ("reset", False)):
        wider = make_net(width=8)
        change = StepCallbackReturn(updated_model=wider, optimizer_state=optimizer_state)
        engine = make_engine(callbacks=[at(1, lambda _, change=change: change)])
        if refused:
            with pytest.raises(EngineError, match=r"0\.weight is \(8, 3\), was \(5, 3\)"):
                engine.fit(1)
            assert engine.model is not wider
        else:
            before = wider[0].weight.detach().clone()
            engine.fit(1)
            assert engine.model is wider
            assert not torch.equal(wider[0].weight, before)


def test_a_new_instance_beside_followers_or_on_meta_is_refused(make_engine: Any, make_net: Any) -> None:
    follower = make_net()
    engine = make_engine(
        callbacks=[at(1, lambda _: StepCallbackReturn(updated_model=make_net(seed=1)))],
        runtime=Runtime(followers=[follower]),
    )
    with pytest.raises(EngineError, match="1 followers of the old one"):
        engine.fit(1)
    empty = make_net(seed=1).to("meta")
    with pytest.raises(EngineError, match=r"parameters on the meta device: 0\.weight"):
        make_engine(callbacks=[at(1, lambda _: StepCallbackReturn(updated_model=empty))]).fit(1)


@pytest.mark.report("R090")
def test_a_compiled_step_is_compiled_again_after_each_of_many_changes(make_engine: Any, service: Any) -> None:
    """Ten changes: torch's limit of 8 recompilations, past which it runs uncompiled, counts anew after each."""
    ran: list[int] = []

    def backend(graph: Any, _: Any) -> Any:
        def run(*inputs: Any) -> Any:
            ran.append(engine.progress.step)
            return graph(*inputs)

        return run

    def widen(step: int, model: nn.Module) -> Any:
        if step < 10:
            service.widen(6 + step)
            return StepCallbackReturn(updated_model=model)
        return None

    runtime = Runtime(wrap=lambda model: torch.compile(model, backend=backend))
    engine = make_engine(callbacks=[widen], services={"growth": service}, runtime=runtime)
    engine.fit(max_steps=12)
    assert ran == list(range(12))
    assert list(engine.model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
