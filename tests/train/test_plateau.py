"""Rates that evaluations bring down: against torch's own scheduler, called by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

import growkit as gk
from growkit.errors import EngineError, SettingsError
from growkit.train import ReduceOnEvaluation, Runtime, Settings, StepCallbackReturn
from growkit.train.plateau import step_schedulers, tell_evaluation

SCORES = [3.0, 2.0, 2.5, 2.1, 1.0, 1.5, 1.2, 1.1]
"""What the evaluation after each epoch gives."""
OPTIONS: dict[str, Any] = {"factor": 0.5, "patience": 1}


def score(model, batch, epoch):
    return {"score": SCORES[epoch - 1], "other": 1.0}


@pytest.fixture
def make(make_engine: Callable[..., Any]) -> Callable[..., Any]:
    def make(*callbacks: Any, evaluate_every: int | None = 1, **given: Any) -> Any:
        given = {
            "settings": Settings(evaluate_every=evaluate_every, log_every=1),
            "runtime": Runtime(schedulers=[lambda optimizer: ReduceOnEvaluation(optimizer, "score", **OPTIONS)]),
            "eval_step": score,
            "eval_data": [0],
            "callbacks": callbacks,
        } | given
        return make_engine(**given)

    return make


def rates(engine: Any, steps: int = 5) -> list[float]:
    """The rate in the first row of each epoch but the first, and the present one."""
    return [row["learning_rate"] for row in engine.history[steps::steps]] + [engine.optimizer.param_groups[0]["lr"]]


def test_the_rate_goes_down_as_by_hand(make: Any, make_net: Any, batches: Any, loss_of: Any) -> None:
    net = make_net()
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    plateau = ReduceLROnPlateau(adam, **OPTIONS)
    by_hand = []
    for epoch in range(8):
        for batch in batches:
            adam.zero_grad()
            loss_of(net, batch).backward()
            adam.step()
        plateau.step(SCORES[epoch])
        by_hand.append(adam.param_groups[0]["lr"])
    engine = make()
    engine.fit(epochs=8)
    assert rates(engine) == by_hand
    assert all(torch.equal(one, other) for one, other in zip(engine.model.parameters(), net.parameters(), strict=True))


def test_the_rates_are_those_that_were_derived(make: Any) -> None:
    """2.5 and 2.1 are two bad ones; then 1.0 is the best, and 1.5 and 1.2 are two bad ones; 1.1 is one."""
    engine = make()
    engine.fit(epochs=8)
    assert rates(engine) == [0.05 * factor for factor in (1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25)]


def test_growth_does_not_disturb_it(make: Any, batches: Any) -> None:
    def widen(growth, epoch):
        return growth.request("wide", widen={"0.weight[0]": 8}) if epoch == 4 else None

    engine = make(epoch_callbacks=[widen], services={"growth": gk.Growth(batches[0][0])})
    engine.fit(epochs=8)
    assert engine.model[0].out_features == 8
    assert rates(engine) == [0.05 * factor for factor in (1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25)]


@pytest.mark.parametrize("stop_at", [5, 18, 20, 33])
def test_a_resumed_run_has_the_rates_and_weights_of_the_whole_one(
    stop_at: int, make: Any, batches: Any, tmp_path: Path
) -> None:
    """Interrupted between epochs, and inside of them, before and after growth."""

    def widen(growth, epoch):
        return growth.request("wide", widen={"0.weight[0]": 8}) if epoch == 4 else None

    def run(folder: str) -> Any:
        settings = Settings(evaluate_every=1, log_every=1, checkpoint_every=stop_at)
        services = {"growth": gk.Growth(batches[0][0])}
        return make(run_dir=tmp_path / folder, settings=settings, epoch_callbacks=[widen], services=services)

    whole, part, resumed = run("whole"), run("parts"), run("parts")
    whole.fit(epochs=8)
    part.fit(max_steps=stop_at)
    resumed.fit(epochs=8, resume="auto")
    assert rates(resumed) == rates(whole)
    assert all(map(torch.equal, resumed.model.parameters(), whole.model.parameters()))


def test_a_rate_of_the_settings_is_the_base_of_what_was_taken_off(make: Any) -> None:
    def callback(epoch):
        return StepCallbackReturn(config_updates={"learning_rate": 0.4}) if epoch == 5 else None

    engine = make(callback)
    engine.fit(epochs=5)
    assert engine.optimizer.param_groups[0]["lr"] == 0.4 * 0.5


def test_evaluations_by_hand_are_not_told(make: Any) -> None:
    engine = make()
    for _ in range(4):
        engine.evaluate(step=lambda model: {"score": 9.0})
    assert engine.runtime.schedulers["main"][0].best == float("inf")


@pytest.mark.parametrize("change", [{"patience": 2}, {"metric": "other"}, {"mode": "max"}])
def test_another_rule_is_refused_at_resume(change: dict[str, Any], make: Any, tmp_path: Path) -> None:
    make(run_dir=tmp_path, settings=Settings(evaluate_every=1, checkpoint_every=5)).fit(max_steps=5)
    options = {"metric": "score"} | OPTIONS | change
    other = make(
        run_dir=tmp_path, runtime=Runtime(schedulers=[lambda optimizer: ReduceOnEvaluation(optimizer, **options)])
    )
    (name, value) = next(iter(change.items()))
    with pytest.raises(EngineError, match=f"ReduceOnEvaluation of the optimizer 'main' with {name}={value!r}"):
        other.fit(epochs=2, resume="auto")


def test_a_number_that_the_evaluation_does_not_give_is_named(make: Any) -> None:
    runtime = Runtime(schedulers=[lambda optimizer: ReduceOnEvaluation(optimizer, "loss")])
    with pytest.raises(EngineError, match="ReduceOnEvaluation by 'loss', and an evaluation with score, other"):
        make(runtime=runtime).fit(epochs=1)


def test_it_is_refused_where_nothing_is_evaluated(make: Any) -> None:
    with pytest.raises(SettingsError, match="ReduceOnEvaluation, and no evaluate_every"):
        make(evaluate_every=None)
    engine = make(lambda step: StepCallbackReturn(config_updates={"evaluate_every": None}) if step == 3 else None)
    with pytest.raises(SettingsError, match="ReduceOnEvaluation, and no evaluate_every"):
        engine.fit(epochs=1)
    assert engine.settings.evaluate_every == 1


def test_it_stands_alone(make: Any) -> None:
    both = [
        lambda optimizer: ReduceOnEvaluation(optimizer, "score"),
        lambda optimizer: LambdaLR(optimizer, lambda n: 1),
    ]
    with pytest.raises(EngineError, match="ReduceOnEvaluation, LambdaLR of the optimizer 'main'"):
        make(runtime=Runtime(schedulers=both))


def test_torch_s_own_is_refused_with_what_to_write(make: Any) -> None:
    with pytest.raises(EngineError, match=r"which waits for a metric\n(.*\n)*.*ReduceOnEvaluation\(optimizer, 'loss'"):
        make(runtime=Runtime(schedulers=[ReduceLROnPlateau]))


def test_a_rate_that_is_a_tensor_keeps_its_base() -> None:
    adam = torch.optim.Adam(nn.Linear(2, 2).parameters(), lr=torch.tensor(0.5), foreach=False)
    plateau = ReduceOnEvaluation(adam, "loss", patience=0, factor=0.5)
    for value in (1.0, 2.0):
        step_schedulers([plateau])
        tell_evaluation([plateau], {"loss": value})
    (group,) = adam.param_groups
    assert (group["lr"].item(), group["initial_lr"].item()) == (0.25, 0.5)
