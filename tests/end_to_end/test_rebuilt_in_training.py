"""The engine goes on with a model that a factory built."""

from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import growkit as gk
from growkit.testing import assert_function_preserved
from growkit.train import Engine, Runtime
from tests.growth.keeping import WIDEN, Keeps, build, keeps

X = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3)


def make_engine(growth: gk.Growth, callback: Any, model: nn.Module, runtime: Runtime | None = None) -> Engine:
    return Engine(
        model,
        lambda model, batch: model(batch).square().mean(),
        train_data=[X] * 4,
        optimizers=lambda model: torch.optim.Adam(model.parameters()),
        callbacks=[callback],
        services={"growth": growth},
        runtime=runtime,
        console=Console(quiet=True),
    )


@pytest.mark.parametrize("way", ["service", "by hand"])
def test_the_engine_goes_on_with_a_rebuilt_model(way: str) -> None:
    """As with the same network without references of its own, grown in place: weight by weight."""

    def trained(growth: gk.Growth, model: nn.Module, factory: Any) -> Engine:
        def callback(step, model, optimizer):
            if step == 2 and way == "service":
                return growth.request("wide", widen=WIDEN)
            if step == 2:
                plan = gk.make_plan(gk.discover(model, X), WIDEN)
                return gk.request_growth(model, plan, optimizers=optimizer, example_inputs=X, factory=factory)

        engine = make_engine(growth, callback, model)
        engine.fit(2)
        return engine

    class Plain(Keeps):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(torch.tanh(self.up(self.first(x))) * self.scale)

    twin = Plain().double()
    twin.load_state_dict(keeps().state_dict())
    rebuilt = trained(gk.Growth(X, factory=build), old := keeps(), build)
    in_place = trained(gk.Growth(X), twin, None)
    assert rebuilt.model is not old
    assert in_place.model is twin
    assert rebuilt.model.up.weight.shape == (7, 8)
    assert old.up.weight.shape == (5, 4)
    for name, tensor in in_place.model.state_dict().items():
        assert torch.equal(rebuilt.model.state_dict()[name], tensor), name


def test_followers_of_the_engine_are_rebuilt() -> None:
    bare, runtime = keeps(), Runtime(followers=[keeps()])
    (old,) = runtime.followers
    growth = gk.Growth(X, factory=build)
    engine = make_engine(growth, lambda growth: growth.request("w", widen=WIDEN), bare, runtime)
    engine.fit(1)
    (follower,) = engine.runtime.followers
    assert follower is not old
    assert_function_preserved(old, follower, X)
    assert growth.table["up.weight[0]"][0].size == 7
    fresh = growth.replay(keeps())
    assert fresh.up.weight.shape == (7, 8)
