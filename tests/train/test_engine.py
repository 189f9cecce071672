"""The engine's door."""

import io
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

from growkit.errors import EngineError, SettingsError
from growkit.train import Runtime, Settings


def test_explain_prints_the_chain(make_engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    make_engine().explain()
    assert capsys.readouterr().out.startswith("FitLoop -> EpochLoop -> AutomaticFlow\n")


def test_a_model_is_made_by_a_function_of_what_it_names(make_engine: Any, make_net: Any) -> None:
    asked = []

    def get_model(*, epoch, step):
        asked.append((epoch, step))
        return make_net()

    engine = make_engine(model=get_model)
    engine.fit(1)
    assert asked == [(1, 0)]
    assert isinstance(engine.model, nn.Sequential)


@pytest.mark.parametrize(
    ("model", "given"), [("net", "model is a str"), (lambda: None, "get_model returned a NoneType")]
)
def test_what_is_no_model_is_refused(make_engine: Any, model: object, given: str) -> None:
    with pytest.raises(EngineError) as caught:
        make_engine(model=model)
    assert caught.value.given == given


def test_optimizers_have_names(make_engine: Any, make_net: Any) -> None:
    net = make_net()
    low, high = torch.optim.Adam(net[0].parameters()), torch.optim.SGD(net[2].parameters(), lr=0.5)
    engine = make_engine(model=net, optimizers={"low": low, "high": high}, train_step=lambda model, batch, flow: None)
    assert engine.optimizers == {"low": low, "high": high}
    with pytest.raises(EngineError, match="the optimizer of a run with 2: low, high"):
        _ = engine.optimizer


def test_the_learning_rate_of_the_settings_is_the_base_rate_from_the_start(make_engine: Any) -> None:
    runtime = Runtime(schedulers=[lambda optimizer: LambdaLR(optimizer, lambda step: 0.5)])
    engine = make_engine(settings=Settings(learning_rate=0.2), runtime=runtime)
    assert engine.optimizer.param_groups[0]["lr"] == 0.1
    assert runtime.schedulers["main"][0].base_lrs == [0.2]


def test_settings_that_contradict_the_rest_are_refused(make_engine: Any) -> None:
    one_cycle = Runtime(schedulers=[lambda optimizer: OneCycleLR(optimizer, 0.1, total_steps=9)])
    with pytest.raises(SettingsError, match="beside OneCycleLR"):
        make_engine(settings=Settings(learning_rate=0.2), runtime=one_cycle)
    with pytest.raises(SettingsError, match="batch_size=3 for train_data that does not take it"):
        make_engine(settings=Settings(batch_size=3))


@pytest.mark.parametrize(
    ("limits", "given"),
    [({}, "fit() without a limit"), ({"epochs": 1.5}, "fit(epochs=1.5)"), ({"max_steps": -1}, "fit(max_steps=-1)")],
)
def test_a_wrong_limit_is_refused(make_engine: Any, limits: dict[str, Any], given: str) -> None:
    with pytest.raises(EngineError) as caught:
        make_engine().fit(**limits)
    assert caught.value.given == given


def test_services_are_attached_before_the_model_is_wrapped_at_every_fit(make_engine: Any, service: Any) -> None:
    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.inner(inputs)

    engine = make_engine(services={"growth": service}, runtime=Runtime(wrap=Wrapper))
    engine.fit(1)
    engine.fit(2)
    assert service.calls == ["attach", "attach"]


def test_a_model_may_change_between_two_fits_with_its_optimizer(make_engine: Any, service: Any) -> None:
    engine = make_engine(services={"growth": service}, callbacks=[lambda: None])
    engine.fit(1)
    service.widen(9)
    engine.fit(2)
    assert engine.history[-1]["parameters"] == 9 * 5 + 1
    engine.model[2] = nn.Linear(9, 1).double()
    with pytest.raises(EngineError, match=r"still holds parameters .*: 2\.weight, 2\.bias"):
        engine.fit(3)


def test_the_bars_are_taken_down_after_an_error(make_engine: Any) -> None:
    def train_step(model, batch):
        raise ZeroDivisionError

    console = Console(file=io.StringIO(), force_terminal=True)
    with pytest.raises(ZeroDivisionError):
        make_engine(train_step=train_step, console=console).fit(1)
    assert console._live_stack == []


def test_a_model_in_eval_mode_is_trained_in_training_mode(make_engine: Any) -> None:
    engine = make_engine()
    engine.model.eval()
    engine.fit(max_steps=1)
    assert engine.model.training


def test_metrics_can_be_read_while_training(make_engine: Any) -> None:
    seen = []
    engine = make_engine(callbacks=[lambda metrics: seen.append(metrics.last.get("loss"))])
    engine.fit(max_steps=2)
    assert seen[0] is None
    assert engine.metrics.last["loss"] != seen[1] is not None


def test_fit_inside_fit_is_refused_and_the_engine_goes_on_after(make_engine: Any) -> None:
    def inside(step: int) -> None:
        if step == 1 and not refused:
            with pytest.raises(EngineError) as caught:
                engine.fit(1)
            refused.append(caught.value.given)

    refused: list[str] = []
    engine = make_engine(callbacks=[inside])
    engine.fit(1)
    assert refused == ["fit() inside fit()"]
    engine.fit(2)
    assert engine.progress.epoch == 3


def test_fit_can_be_called_again_after_an_error(make_engine: Any) -> None:
    def fail_once(step: int) -> None:
        if step == 1 and not failed:
            failed.append(step)
            raise ValueError("once")

    failed: list[int] = []
    engine = make_engine(callbacks=[fail_once])
    with pytest.raises(ValueError, match="once"):
        engine.fit(1)
    engine.fit(1)
    assert engine.progress.epoch == 2
