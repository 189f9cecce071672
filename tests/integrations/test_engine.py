"""Growth as a service of the engine."""

from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import growkit as gk
from growkit.errors import EngineError, GrowkitError, NameLookupError, PlanError, SettingsError
from growkit.integrations import engine as integration
from growkit.testing import assert_function_preserved
from growkit.train import Engine, Runtime, Settings
from tests.growth.nets import conformer, residual, utterances

X = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3)


def build(width: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1)).double()


def make_engine(growth: gk.Growth, callbacks: Any = (), model: Any = None, **given: Any) -> Engine:
    given = {"train_step": lambda model, batch: model(batch).square().mean()} | given
    return Engine(
        model or build(),
        train_data=[X] * 4,
        optimizers=lambda model: torch.optim.Adam(model.parameters()),
        callbacks=callbacks,
        services={"growth": growth},
        console=Console(quiet=True),
        **given,
    )


@pytest.fixture
def discoveries(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """The models that were discovered."""
    seen: list[nn.Module] = []
    original = integration.discover

    def counted(model: nn.Module, *args: Any, **kwargs: Any) -> Any:
        seen.append(model)
        return original(model, *args, **kwargs)

    monkeypatch.setattr(integration, "discover", counted)
    return seen


def widen_at(step: int, width: int) -> Any:
    def callback(growth, **now):
        if now["step"] >= step:
            return growth.request(f"to {width}", widen={"0.weight[0]": width})

    return callback


def test_a_model_is_discovered_once_however_often_it_is_fitted_and_grown(discoveries: list[nn.Module]) -> None:
    engine = make_engine(gk.Growth(X), [widen_at(2, 6), widen_at(5, 9)])
    for epochs in (1, 2, 3):
        engine.fit(epochs)
    assert engine.model[0].out_features == 9
    assert discoveries == [engine.model]


def test_a_model_changed_between_two_fits_is_discovered_again(discoveries: list[nn.Module]) -> None:
    engine = make_engine(gk.Growth(X), [widen_at(4, 12)])
    engine.fit(1)
    gk.grow(engine.model, widen={"0.weight[0]": 6}, example_inputs=X, optimizers=engine.optimizer)
    engine.fit(2)
    assert engine.model[0].out_features == 12
    assert len(discoveries) == 2


@pytest.mark.parametrize("how", ["grow", "request_growth"])
def test_a_model_changed_by_hand_in_training_is_discovered_again(discoveries: list[nn.Module], how: str) -> None:
    growth = gk.Growth(X)

    def callback(model, optimizer, step):
        if step == 1 and how == "grow":
            gk.grow(model, widen={"0.weight[0]": 6}, example_inputs=X, optimizers=optimizer)
            return gk.StepCallbackReturn(updated_model=model)
        if step == 1:
            plan = gk.make_plan(gk.discover(model, X), widen={"0.weight[0]": 6})
            return gk.request_growth(model, plan, optimizers=optimizer, example_inputs=X)
        return growth.request("wide", widen={"0.weight[0]": 12}) if step == 2 else None

    engine = make_engine(growth, [callback])
    engine.fit(1)
    assert engine.model[0].out_features == 12
    assert [report.tensors[0].before for report in growth.reports] == [(6, 3)]
    assert discoveries == [engine.model, engine.model]


def test_declared_layouts_follow_a_growth_in_depth() -> None:
    """Then the deeper stack can still grow jointly."""
    label = {"up.weight": "hidden:produces stream:consumes", "down.weight": "stream:produces hidden:consumes"}
    layouts = {f"blocks.0.{name}": text for name, text in label.items()} | {"first.weight": "stream features"}
    growth = gk.Growth(X, layouts=layouts)

    def callback(step):
        if step == 1:
            return growth.request("deep", deepen={"blocks": 2})
        return growth.request("wide", widen={"stream": 8, "hidden_1": 7}) if step == 2 else None

    engine = make_engine(growth, [callback], residual(blocks=1))
    engine.fit(1)
    assert list(growth.layouts) == [*layouts, "blocks.1.up.weight", "blocks.1.down.weight"]
    assert [block.up.weight.shape for block in engine.model.blocks] == [(5, 8), (7, 8)]


def test_another_model_is_discovered(discoveries: list[nn.Module]) -> None:
    first, second = build(), build()

    def replace(step):
        return gk.StepCallbackReturn(updated_model=second) if step == 1 else None

    engine = make_engine(gk.Growth(X), [replace, widen_at(2, 6)], first)
    engine.fit(1)
    assert [len(first[0].weight), len(second[0].weight)] == [4, 6]
    assert discoveries == [first, second]


def test_the_model_is_discovered_before_it_is_wrapped(discoveries: list[nn.Module]) -> None:
    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.inner(inputs)

    engine = make_engine(gk.Growth(X), [widen_at(1, 6)], runtime=Runtime(wrap=Wrapper))
    engine.fit(1)
    assert discoveries == [engine.model]
    assert engine.runtime.wrapped.inner is engine.model
    assert engine.model[0].out_features == 6


def test_a_name_is_grown_once_and_its_plan_and_report_are_kept() -> None:
    growth = gk.Growth(X)
    returned = []
    callback = widen_at(1, 6)
    engine = make_engine(growth, [lambda growth, step: returned.append(callback(growth, step=step))])
    engine.fit(1)
    assert [change is None for change in returned] == [True, False, True, True]
    assert list(growth.done) == ["to 6"]
    assert [report.verification.passed for report in growth.reports] == [True]


def test_what_a_factor_gives_is_rounded_up_on_request() -> None:
    """Four units by 1.3 are 5.2, that is 8 in multiples of 8."""

    def callback(growth):
        return growth.request("wider", widen={"0.weight[0]": 1.3}, multiple_of=8)

    engine = make_engine(gk.Growth(X), [callback])
    engine.fit(1)
    assert engine.model[0].out_features == 8


def test_a_growth_that_is_refused_leaves_everything_and_training_can_go_on() -> None:
    growth = gk.Growth(X)
    refusals = []

    def callback(growth, step):
        for widen, updates in (({"2.weight[0]": 7, "nothing": 3}, {}), ({"0.weight[0]": 6}, {"lr": 1})):
            try:
                growth.request("wide", widen=widen, config_updates=updates)
            except GrowkitError as error:
                refusals.append(type(error))

    engine = make_engine(growth, [callback])
    engine.fit(max_steps=1)
    assert refusals == [NameLookupError, SettingsError]
    assert engine.model[0].out_features == 4
    assert growth.done == {}


def test_a_request_outside_of_training_is_refused() -> None:
    with pytest.raises(EngineError, match="a request outside of training"):
        gk.Growth(X).request("wide", widen={"0.weight[0]": 6})
    with pytest.raises(EngineError, match="a Growth without a model"):
        _ = gk.Growth(X).table


@pytest.mark.report("R101")
@pytest.mark.parametrize("where", ["train step", "evaluation"])
def test_a_request_inside_a_step_or_an_evaluation_is_refused(where: str) -> None:
    """Between forward and backward, or in the middle of a measurement, the model stays as it is."""
    growth = gk.Growth(X)

    def request() -> None:
        growth.request("wide", widen={"0.weight[0]": 6})

    def train_step(model, batch):
        loss = model(batch).square().mean()
        if where == "train step":
            request()
        return loss

    def eval_step(model, batch):
        request()

    engine = make_engine(growth, train_step=train_step)

    def run() -> None:
        engine.fit(1)
        engine.evaluate([X], step=eval_step)

    with pytest.raises(EngineError, match="a change of the model inside a step or an evaluation"):
        run()
    assert engine.model[0].out_features == 4
    assert growth.done == {}


def test_the_growths_are_replayed_on_a_fresh_model_from_a_saved_state() -> None:
    growth = gk.Growth(X)
    engine = make_engine(growth, [widen_at(1, 6), widen_at(2, 9)])
    engine.fit(1)
    other, fresh = gk.Growth(X), build()
    other.load_state_dict(growth.state_dict())
    other.replay(fresh)
    assert list(other.done) == ["to 6", "to 9"]
    assert [p.shape for p in fresh.parameters()] == [p.shape for p in engine.model.parameters()]


@pytest.mark.parametrize("state", [{}, {"plans": {}}, {"done": None}, {"done": ["wide"]}])
def test_a_state_of_something_else_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(EngineError, match="as state of a Growth, a mapping with the keys"):
        gk.Growth(X).load_state_dict(state)


@pytest.mark.parametrize("text", ["{", "{}", None])
def test_a_state_with_a_damaged_plan_is_refused(text: object) -> None:
    growth = gk.Growth(X)
    with pytest.raises(PlanError):
        growth.load_state_dict({"done": {"wide": text}})
    assert growth.done == {}


def test_a_growth_in_training_keeps_the_function() -> None:
    growth = gk.Growth(X, seed=3)
    before: list[nn.Module] = []

    def grow_at_one(model, step, growth):
        if step == 1:
            before.append(build_like(model))
            return growth.request("both", widen={"0.weight[0]": 6})

    engine = make_engine(growth, [grow_at_one])
    engine.fit(max_steps=1)
    engine.optimizer.param_groups[0]["lr"] = 0.0
    engine.fit(max_steps=2)
    assert_function_preserved(before[0], engine.model, X)


def build_like(model: nn.Module) -> nn.Sequential:
    copy = build()
    copy.load_state_dict(model.state_dict())
    return copy


def test_request_growth_grows_and_returns_the_change() -> None:
    model = build()
    plan = gk.make_plan(gk.discover(model, X), widen={"0.weight[0]": 6})
    change = gk.request_growth(model, plan, example_inputs=X, config_updates={"learning_rate": 0.1})
    assert change.updated_model is model
    assert change.config_updates == {"learning_rate": 0.1}
    assert model[0].out_features == 6


def test_a_conformer_grows_in_width_and_depth_inside_a_wrapper() -> None:
    """The wrapper is made anew for the grown model, the rate changes with it, and the metrics go on."""
    inputs = utterances()
    wrapped: list[int] = []

    def wrap(model: nn.Module) -> nn.Module:
        wrapped.append(sum(p.numel() for p in model.parameters()))
        return nn.Sequential(model)

    def callback(growth, step):
        if step == 2:
            widen = {"model_dim": 2.0, "ffn_dim": 2.0, "num_heads": 3}
            growth.request("wide", widen=widen, config_updates={"learning_rate": 5e-4})
        if step >= 3:
            return growth.request("deep", deepen={"layers": 3})
        return None

    growth = gk.Growth(inputs)
    model = conformer()
    engine = Engine(
        model,
        train_step=lambda model, batch: model[0](*batch).square().mean(),
        train_data=[inputs] * 5,
        optimizers=lambda model: torch.optim.Adam(model.parameters()),
        callbacks=[callback],
        services={"growth": growth},
        settings=Settings(log_every=1),
        runtime=Runtime(wrap=wrap),
        console=Console(quiet=True),
    )
    engine.fit(1)
    assert list(growth.done) == ["wide", "deep"]
    assert wrapped == sorted(set(wrapped))
    assert len(wrapped) == 3
    assert len(model.encoder.layers) == 3
    assert engine.optimizer.param_groups[0]["lr"] == 5e-4
    assert len(engine.history) == 5
    assert growth.table.sizes["encoder.input_projection.weight[0]"] == 8
    assert [plan.growth for plan in growth.done.values()] == [0, 1]
