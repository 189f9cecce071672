"""Several optimizers, one after the other, against a hand-written loop: bit-equal weights."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit.train import Settings


def two(model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    return {
        "low": torch.optim.Adam(model[0].parameters(), lr=0.05),
        "high": torch.optim.SGD(model[2].parameters(), lr=0.1),
    }


@pytest.mark.parametrize("window", [1, 2])
def test_each_optimizer_steps_before_the_next_one_runs(
    make_net: Any, make_engine: Any, batches: Any, loss_of: Any, window: int
) -> None:
    needing: dict[str, list[bool]] = {}

    def train_step(model, batch, optimizer):
        needing[optimizer] = [parameter.requires_grad for parameter in model.parameters()]
        return loss_of(model, batch) * (1.0 if optimizer == "low" else 2.0)

    engine = make_engine(train_step=train_step, optimizers=two, settings=Settings(accumulate_steps=window))
    engine.fit(1)
    net = make_net()
    optimizers = two(net)
    for start in range(0, len(batches), window):
        part = batches[start : start + window]
        for name in optimizers:
            optimizers[name].zero_grad()
        for index, batch in enumerate(part):
            for name, factor, layer in (("low", 1.0, net[0]), ("high", 2.0, net[2])):
                loss = loss_of(net, batch) * factor
                loss = loss / len(part) if len(part) > 1 else loss
                for parameter, gradient in zip(
                    layer.parameters(), torch.autograd.grad(loss, list(layer.parameters())), strict=True
                ):
                    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
                if index == len(part) - 1:
                    optimizers[name].step()
    assert all(torch.equal(p, q) for p, q in zip(engine.model.parameters(), net.parameters(), strict=True))
    assert needing == {"low": [True, True, False, False], "high": [False, False, True, True]}
    assert all(parameter.requires_grad for parameter in engine.model.parameters())
    updates = len(range(0, len(batches), window))
    assert engine.progress.updates_of == {"low": updates, "high": updates}


@pytest.mark.report("R178")
def test_parameters_of_both_need_gradients_for_both_and_frozen_ones_stay_frozen(make_engine: Any, loss_of: Any) -> None:
    needing: dict[str, list[bool]] = {}

    def shared(model: nn.Module) -> dict[str, torch.optim.Optimizer]:
        model[0].bias.requires_grad_(False)
        high = [*model[2].parameters(), model[0].weight]
        return {"low": torch.optim.SGD(model[0].parameters(), lr=0.1), "high": torch.optim.SGD(high, lr=0.1)}

    def train_step(model, batch, optimizer):
        needing[optimizer] = [parameter.requires_grad for parameter in model.parameters()]
        return loss_of(model, batch)

    engine = make_engine(train_step=train_step, optimizers=shared)
    engine.fit(1)
    assert needing == {"low": [True, False, False, False], "high": [True, False, True, True]}
    assert [parameter.requires_grad for parameter in engine.model.parameters()] == [True, False, True, True]


def test_a_step_that_returns_none_leaves_its_optimizer_alone(make_engine: Any, loss_of: Any) -> None:
    def train_step(model, batch, optimizer, step):
        return loss_of(model, batch) if optimizer == "low" or step % 2 else None

    engine = make_engine(train_step=train_step, optimizers=two)
    engine.fit(1)
    assert engine.progress.updates_of == {"low": 5, "high": 2}
    assert set(engine.metrics.last) == {"low_loss"}
