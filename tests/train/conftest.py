"""A small network, data for it, and an engine around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from growkit.train import Engine


@pytest.fixture
def make_net() -> Callable[..., nn.Sequential]:
    def make(width: int = 5, seed: int = 0) -> nn.Sequential:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1)).double()

    return make


@pytest.fixture
def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(7)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    return [(draw(4, 3), draw(4, 1)) for _ in range(5)]


@pytest.fixture
def loss_of() -> Callable[..., torch.Tensor]:
    def squared_error(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return (model(batch[0]) - batch[1]).square().mean()

    return squared_error


@pytest.fixture
def make_engine(make_net: Any, batches: Any, loss_of: Any) -> Callable[..., Engine]:
    def make(**given: Any) -> Engine:
        given = {
            "model": make_net(),
            "train_step": loss_of,
            "train_data": batches,
            "optimizers": lambda model: torch.optim.Adam(model.parameters(), lr=0.05),
            "console": Console(quiet=True),
        } | given
        return Engine(**given)

    return make


class RecordingService:
    """A service that does what the test tells it to, and writes down how the engine calls it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.change: Any = None
        self.runtime: Any = None

    def attach(self, runtime: Any) -> None:
        self.runtime = runtime
        self.calls.append("attach wrapped" if runtime.wrapped is not runtime.model else "attach")

    def take_change(self) -> Any:
        change, self.change = self.change, None
        return change

    def replay(self, model: nn.Module) -> None:
        self.calls.append("replay")

    def state_dict(self) -> dict[str, object]:
        return {}

    def load_state_dict(self, state: Any) -> None:
        self.calls.append("load_state_dict")

    def widen(self, width: int) -> None:
        """Makes the hidden layer of `make_net` wider in place, with fresh units and reset moments."""
        model, optimizer = self.runtime.model, self.runtime.optimizer
        for layer, shape, dim in ((model[0], (width, 3), 0), (model[2], (1, width), 1)):
            self._replace(optimizer, layer, "weight", torch.zeros(shape, dtype=torch.float64), dim)
        self._replace(optimizer, model[0], "bias", torch.zeros(width, dtype=torch.float64), 0)

    @staticmethod
    def _replace(optimizer: Any, layer: nn.Module, name: str, new: torch.Tensor, dim: int) -> None:
        old = getattr(layer, name)
        new.narrow(dim, 0, old.shape[dim]).copy_(old.detach())
        parameter = nn.Parameter(new)
        setattr(layer, name, parameter)
        for group in optimizer.param_groups:
            group["params"] = [parameter if held is old else held for held in group["params"]]
        optimizer.state.pop(old, None)


@pytest.fixture
def service() -> RecordingService:
    return RecordingService()
