"""The state of a run as one value. Whole runs that are interrupted: tests/end_to_end/test_resume.py."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError
from growkit.train import Runtime, Settings, StepCallbackReturn
from growkit.train.snapshot import differences, restore, snapshot


def saved_of(engine: Any) -> dict[str, Any]:
    return snapshot(engine._state, engine._loop, {})


def load(engine: Any, saved: Any) -> Any:
    return restore(engine._state, engine._loop, {}, saved)


def test_it_holds_weights_slots_and_flags_by_name(make_engine: Any) -> None:
    engine = make_engine()
    engine.model[0].bias.requires_grad_(False)
    engine.fit(max_steps=3)
    saved = saved_of(engine)
    assert saved["model"].keys() == engine.model.state_dict().keys()
    assert saved["frozen"] == ["0.bias"]
    weight = engine.model[2].weight
    assert torch.equal(
        saved["optimizers"]["main"]["state"]["2.weight"]["exp_avg"], engine.optimizer.state[weight]["exp_avg"]
    )
    other = make_engine()
    load(other, saved)
    assert other.progress == engine.progress
    assert [p.requires_grad for p in other.model.parameters()] == [True, False, True, True]
    slots = other.optimizer.state[other.model[2].weight]
    assert slots.keys() == engine.optimizer.state[weight].keys()
    assert all(torch.equal(value, engine.optimizer.state[weight][key]) for key, value in slots.items())


def test_differences_are_named(make_engine: Any, make_net: Any) -> None:
    saved = saved_of(make_engine())
    assert differences(make_net(), saved) == []
    assert differences(make_net(width=7), saved) == [
        "0.weight is (7, 3), was (5, 3)",
        "0.bias is (7,), was (5,)",
        "2.weight is (1, 7), was (1, 5)",
    ]
    assert differences(nn.Sequential(nn.Linear(3, 5)), saved) == ["2.weight is missing", "2.bias is missing"]


@pytest.mark.parametrize("tied_then", [False, True])
def test_a_tie_that_came_or_went_is_a_difference(tied_then: bool, make_engine: Any) -> None:
    """Loaded name by name, the last name would win; or a parameter would be in no optimizer."""

    def net(tied: bool) -> nn.Module:
        made = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)).double()
        if tied:
            made[1].weight = made[0].weight
        return made

    saved = saved_of(make_engine(model=net(tied_then)))
    kinds = {True: "0.weight = 1.weight", False: "none"}
    assert differences(net(tied_then), saved) == []
    assert differences(net(not tied_then), saved) == [
        f"shared parameters are {kinds[not tied_then]}, were {kinds[tied_then]}"
    ]


def test_another_set_up_is_refused_before_anything_is_changed(make_engine: Any, service: Any) -> None:
    engine = make_engine()
    engine.fit(max_steps=2)
    saved = saved_of(engine)
    for other, what in (
        (make_engine(services={"growth": service}), "services none, for a run with growth"),
        (make_engine(runtime=Runtime(followers=[{}])), "followers 0, for a run with 1"),
        (
            make_engine(optimizers=lambda model: torch.optim.SGD(model.parameters(), lr=0.1)),
            "class of the optimizer 'main' Adam, for a run with SGD",
        ),
    ):
        with pytest.raises(EngineError, match=what):
            load(other, saved)
        assert other.progress.step == 0


def test_a_checkpoint_of_other_processes_is_refused(make_engine: Any) -> None:
    saved = saved_of(make_engine())
    saved["ranks"] *= 3
    other = make_engine()
    with pytest.raises(EngineError, match="a checkpoint of 3 processes, for a run with 1") as caught:
        load(other, saved)
    assert caught.value.next_step == "start 3 processes, or begin a new run from the saved weights"


def test_followers_go_along(make_engine: Any, make_net: Any) -> None:
    one, other = ((make_net(seed=seed), {"sum": torch.full((2,), float(seed))}) for seed in (1, 2))
    saved = saved_of(make_engine(runtime=Runtime(followers=one)))
    load(make_engine(runtime=Runtime(followers=other)), saved)
    assert torch.equal(other[0][0].weight, make_net(seed=1)[0].weight)
    assert other[1]["sum"].tolist() == [1.0, 1.0]


def test_data_that_a_callback_replaced_is_told_of_at_every_resume(make_engine: Any, batches: Any) -> None:
    def replace(step):
        return StepCallbackReturn(config_updates={"train_data": batches[1:]}) if step == 1 else None

    first, second, third = make_engine(callbacks=[replace]), make_engine(), make_engine()
    first.fit(max_steps=2)
    told: list[str] = []
    for engine, saved in ((second, lambda: saved_of(first)), (third, lambda: saved_of(second))):
        engine._state.display.message = told.append
        load(engine, saved())
    assert len(told) == 2
    assert all("the run had replaced its own by an update" in message for message in told)


@pytest.mark.report("R152")
def test_settings_given_anew_win_and_are_told(make_engine: Any) -> None:
    engine = make_engine(settings=Settings(learning_rate=0.2))
    engine.fit(max_steps=2)
    saved = saved_of(engine)
    same, other = make_engine(settings=Settings(learning_rate=0.2)), make_engine(settings=Settings(learning_rate=0.3))
    told: list[str] = []
    other._state.display.message = told.append
    load(same, saved)
    load(other, saved)
    assert [one.optimizer.param_groups[0]["lr"] for one in (same, other)] == [0.2, 0.3]
    assert told == ["resumed with learning_rate=0.3, was 0.2"]


def test_an_optimizer_of_parameters_from_elsewhere_is_refused(make_engine: Any) -> None:
    def optimizer(model):
        return torch.optim.SGD([*model.parameters(), nn.Parameter(torch.zeros(2))], lr=0.1)

    with pytest.raises(EngineError, match="1 parameters that the model does not have"):
        saved_of(make_engine(optimizers=optimizer))
