"""Optimizers that a callback replaces, and new ones for a run that goes on: against loops by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR, StepLR

import growkit as gk
from growkit.errors import EngineError, SettingsError
from growkit.train import Runtime, Settings, StepCallbackReturn


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def replacing(at: int, make: Any = sgd, **change: Any) -> Any:
    """A callback that returns other optimizers before one step."""
    return lambda step: StepCallbackReturn(optimizers=make, **change) if step == at else None


def by_hand(net: nn.Module, batches: Any, loss_of: Any, steps: int, optimizers: Any, schedule: Any = None) -> None:
    """Steps with the optimizer that `optimizers` has for each step; `schedule` tells the rate."""
    for step in range(steps):
        optimizer = optimizers(step)
        if schedule is not None:
            optimizer.param_groups[0]["lr"] = schedule(step)
        optimizer.zero_grad()
        loss_of(net, batches[step % len(batches)]).backward()
        optimizer.step()


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.report("R151")
@pytest.mark.parametrize("given", [sgd, lambda model: {"main": sgd(model)}])
def test_the_replacement_is_used_from_the_next_step(
    given: Any, make_engine: Any, make_net: Any, batches: Any, loss_of: Any
) -> None:
    net = make_net()
    adam, other = torch.optim.Adam(net.parameters(), lr=0.05), sgd(net)
    by_hand(net, batches, loss_of, 8, lambda step: adam if step < 3 else other)
    engine = make_engine(callbacks=[replacing(3, given)])
    old = engine.optimizer
    engine.fit(max_steps=8)
    assert_same(engine.model, net)
    assert isinstance(engine.optimizer, torch.optim.SGD)
    assert {int(slots["step"]) for slots in old.state.values()} == {3}
    assert engine.progress.updates_of == {"main": 8}


@pytest.mark.report("R151")
def test_only_what_the_replacement_holds_moves_from_then_on(make_engine: Any) -> None:
    engine = make_engine(callbacks=[replacing(2, lambda model: sgd(model[2]))])
    engine.fit(max_steps=2)
    first, last = engine.model[0].weight.clone(), engine.model[2].weight.clone()
    engine.fit(max_steps=3)
    assert torch.equal(engine.model[0].weight, first)
    assert not torch.equal(engine.model[2].weight, last)


def test_one_of_several_optimizers_is_replaced(make_engine: Any) -> None:
    def two(model):
        return {"first": sgd(model[0]), "last": sgd(model[2])}

    engine = make_engine(
        optimizers=two,
        train_step=lambda model, batch, optimizer: (model(batch[0]) - batch[1]).square().mean(),
        callbacks=[replacing(2, lambda model: {"last": torch.optim.Adam(model[2].parameters())})],
    )
    kept = engine.optimizers["first"]
    engine.fit(max_steps=4)
    assert engine.optimizers["first"] is kept
    assert {int(slots["step"]) for slots in engine.optimizers["last"].state.values()} == {2}
    assert list(engine.optimizers) == ["first", "last"]


def test_schedulers_begin_anew_and_the_rate_of_the_settings_is_set(make_engine: Any) -> None:
    rates: list[float] = []
    engine = make_engine(
        callbacks=[replacing(3)],
        settings=Settings(learning_rate=0.8, log_every=1),
        runtime=Runtime(schedulers=[lambda optimizer: StepLR(optimizer, 2, gamma=0.5)]),
    )
    engine.fit(max_steps=6)
    rates = [row["learning_rate"] for row in engine.history]
    assert rates == [0.8, 0.4, 0.4, 0.8, 0.4, 0.4]


def test_a_new_model_comes_with_its_optimizer(make_engine: Any, make_net: Any) -> None:
    """Of other sizes, which a transfer of the state would refuse."""
    wide = make_net(width=9)
    engine = make_engine(callbacks=[replacing(2, updated_model=wide)])
    engine.fit(max_steps=4)
    assert engine.model is wide
    assert {id(p) for p in engine.optimizer.state} == {id(p) for p in wide.parameters()}


def test_one_that_is_in_force_already_changes_nothing(make_engine: Any) -> None:
    wrapped: list[nn.Module] = []
    engine = make_engine(
        callbacks=[lambda optimizer: StepCallbackReturn(optimizers=optimizer)],
        runtime=Runtime(wrap=lambda model: wrapped.append(model) or model),
    )
    engine.fit(max_steps=3)
    assert {int(slots["step"]) for slots in engine.optimizer.state.values()} == {3}
    assert len(wrapped) == 1


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda model: {"other": sgd(model)}, "new optimizers with the names 'other'"),
        (lambda model: "sgd", "a str as the optimizer 'main'"),
        (lambda model: sgd(nn.Linear(1, 1)), "SGD holds none of the model's parameters"),
    ],
)
def test_a_wrong_one_changes_nothing(make: Any, given: str, make_engine: Any) -> None:
    engine = make_engine(callbacks=[replacing(2, make, config_updates={"log_every": 7})])
    before, settings = engine.optimizer, engine.settings
    with pytest.raises(EngineError, match=given):
        engine.fit(1)
    assert engine.optimizer is before
    assert engine.settings == settings


def test_what_cannot_be_set_for_the_new_one_is_refused(make_engine: Any) -> None:
    def of_two_rates(model):
        return torch.optim.SGD([{"params": model[0].parameters(), "lr": 1.0}, {"params": model[2].parameters()}])

    engine = make_engine(callbacks=[replacing(1, of_two_rates)], settings=Settings(learning_rate=0.8))
    with pytest.raises(SettingsError, match="parameter groups with the rates"):
        engine.fit(1)
    engine = make_engine(
        callbacks=[replacing(1)],
        model=(net := nn.Linear(3, 1).double()),
        optimizers=(adam := torch.optim.Adam(net.parameters())),
        runtime=Runtime(schedulers=[StepLR(adam, 2)]),
    )
    with pytest.raises(EngineError, match="StepLR of another optimizer"):
        engine.fit(1)


def test_the_optimizer_of_another_name_is_refused(make_engine: Any) -> None:
    engine = make_engine(
        optimizers=lambda model: {"first": sgd(model[0]), "last": sgd(model[2])},
        train_step=lambda model, batch, optimizer: (model(batch[0]) - batch[1]).square().mean(),
        callbacks=[lambda optimizers: StepCallbackReturn(optimizers={"first": optimizers["last"]})],
    )
    with pytest.raises(EngineError, match="the optimizer of another name for 'first'"):
        engine.fit(1)


def warm(step: int) -> float:
    return min(1.0, (step + 1) / 6)


def saved(make_engine: Any, tmp_path: Path, steps: int = 3, **given: Any) -> None:
    engine = make_engine(
        run_dir=tmp_path,
        settings=Settings(checkpoint_every=1),
        runtime=Runtime(schedulers=[lambda optimizer: LambdaLR(optimizer, warm)]),
        **given,
    )
    engine.fit(max_steps=steps)


@pytest.mark.report("R160")
def test_counters_and_warm_up_go_on_with_an_optimizer_of_another_class(
    make_engine: Any, make_net: Any, batches: Any, loss_of: Any, tmp_path: Path
) -> None:
    net = make_net()
    adam, other = torch.optim.Adam(net.parameters(), lr=0.05), sgd(net)
    by_hand(
        net,
        batches,
        loss_of,
        9,
        lambda step: adam if step < 3 else other,
        lambda step: (0.05 if step < 3 else 0.1) * warm(step),
    )
    saved(make_engine, tmp_path)
    engine = make_engine(run_dir=tmp_path, optimizers=sgd, runtime=Runtime(schedulers=[lambda o: LambdaLR(o, warm)]))
    engine.fit(max_steps=9, resume="auto", optimizer_state="reset")
    assert (engine.progress.step, engine.progress.epoch, engine.progress.updates_of) == (9, 2, {"main": 9})
    for mine, theirs in zip(engine.model.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-13, atol=0.0)


@pytest.mark.report("R160")
def test_without_asking_another_class_is_refused(make_engine: Any, tmp_path: Path) -> None:
    saved(make_engine, tmp_path)
    engine = make_engine(run_dir=tmp_path, optimizers=sgd, runtime=Runtime(schedulers=[lambda o: LambdaLR(o, warm)]))
    with pytest.raises(EngineError, match="class of the optimizer 'main' Adam, for a run with SGD"):
        engine.fit(max_steps=9, resume="auto")


def grown(batches: Any) -> dict[str, Any]:
    def widen(growth, step):
        return growth.request("wide", widen={"0.weight[0]": 8}) if step >= 1 else None

    return {"callbacks": [widen], "services": {"growth": gk.Growth(batches[0][0])}}


def test_after_growth_the_new_optimizer_is_made_for_the_grown_model(
    make_engine: Any, batches: Any, tmp_path: Path
) -> None:
    schedulers = {"runtime": Runtime(schedulers=[lambda o: LambdaLR(o, warm)])}
    saved(make_engine, tmp_path, **grown(batches))
    engine = make_engine(run_dir=tmp_path, optimizers=sgd, **schedulers, **grown(batches))
    engine.fit(max_steps=4, resume="auto", optimizer_state="reset")
    assert engine.model[0].out_features == 8
    assert {id(p) for p in engine.optimizer.state} == {id(p) for p in engine.model.parameters()}
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    stale = make_engine(run_dir=tmp_path, model=net, optimizers=sgd(net), **grown(batches))
    with pytest.raises(EngineError, match="new optimizers of the model from before its growth"):
        stale.fit(max_steps=4, resume="auto", optimizer_state="reset")


@pytest.mark.parametrize(
    ("make", "scheduler", "given"),
    [
        (
            lambda model: torch.optim.SGD([{"params": layer.parameters()} for layer in (model[0], model[2])], lr=0.1),
            lambda o: LambdaLR(o, warm),
            "schedulers of 1 parameter groups, for a new optimizer with 2",
        ),
        (sgd, lambda o: OneCycleLR(o, 0.1, total_steps=9), "OneCycleLR of a new optimizer"),
    ],
)
def test_a_schedule_that_cannot_go_on_is_refused(
    make: Any, scheduler: Any, given: str, make_engine: Any, tmp_path: Path
) -> None:
    saved(make_engine, tmp_path)
    engine = make_engine(run_dir=tmp_path, optimizers=make, runtime=Runtime(schedulers=[scheduler]))
    with pytest.raises(EngineError, match=given):
        engine.fit(max_steps=4, resume="auto", optimizer_state="reset")


def test_a_rate_of_the_settings_is_the_new_base(make_engine: Any, tmp_path: Path) -> None:
    saved(make_engine, tmp_path)
    engine = make_engine(
        run_dir=tmp_path,
        optimizers=sgd,
        settings=Settings(learning_rate=0.6),
        runtime=Runtime(schedulers=[lambda o: LambdaLR(o, warm)]),
    )
    engine.fit(max_steps=3, resume="auto", optimizer_state="reset")
    assert engine.optimizer.param_groups[0]["lr"] == pytest.approx(0.6 * 4 / 6, rel=1e-15)


def test_another_word_is_refused(make_engine: Any) -> None:
    with pytest.raises(EngineError, match="optimizer_state='keep'"):
        make_engine().fit(1, resume="auto", optimizer_state="keep")


def test_a_run_goes_on_from_behind_the_change_with_the_optimizer_in_force(make_engine: Any, tmp_path: Path) -> None:
    def change(optimizer, step):
        if step >= 2 and isinstance(optimizer, torch.optim.Adam):
            return StepCallbackReturn(optimizers=sgd)

    whole = make_engine(callbacks=[change])
    whole.fit(max_steps=8)
    settings = Settings(checkpoint_every=1)
    make_engine(callbacks=[change], run_dir=tmp_path, settings=settings).fit(max_steps=4)
    resumed = make_engine(callbacks=[change], run_dir=tmp_path, settings=settings, optimizers=sgd)
    resumed.fit(max_steps=8, resume="auto")
    assert_same(resumed.model, whole.model)
