"""Yielded losses against a hand-written loop: bit-equal weights."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError


def two(model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    return {
        "low": torch.optim.Adam(model[0].parameters(), lr=0.05),
        "high": torch.optim.SGD(model[2].parameters(), lr=0.1),
    }


def test_each_yield_steps_its_optimizer_on_a_shared_forward_pass(make_net: Any, make_engine: Any, batches: Any) -> None:
    """Both losses come from one hidden layer; the second backward goes through weights that changed only after it."""

    def losses(net: nn.Module, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = net[1](net[0](batch[0]))
        return hidden.square().mean(), (net[2](hidden.detach()) - batch[1]).square().mean()

    def train_step(model, batch):
        low, high = losses(model, batch)
        yield "low", {"loss": low, "size": len(batch[0])}
        yield "high", high

    engine = make_engine(train_step=train_step, optimizers=two)
    engine.fit(2)
    net = make_net()
    optimizers = two(net)
    for _ in range(2):
        for batch in batches:
            low, high = losses(net, batch)
            for name, loss in (("low", low), ("high", high)):
                optimizers[name].zero_grad()
                loss.backward(retain_graph=True)
                optimizers[name].step()
    assert all(torch.equal(p, q) for p, q in zip(engine.model.parameters(), net.parameters(), strict=True))
    assert engine.progress.updates_of == {"low": 10, "high": 10}
    assert engine.metrics.last == {"low_loss": low.item(), "low_size": 4.0, "high_loss": high.item()}


def test_an_optimizer_may_be_left_out(make_engine: Any, loss_of: Any) -> None:
    def train_step(model, batch, step):
        yield "low", loss_of(model, batch)
        if step % 2:
            yield "high", loss_of(model, batch)

    engine = make_engine(train_step=train_step, optimizers=two)
    engine.fit(1)
    assert engine.progress.updates_of == {"low": 5, "high": 2}


@pytest.mark.report("R179")
def test_a_loss_from_before_a_step_that_changed_its_weights_is_explained(make_engine: Any, loss_of: Any) -> None:
    def train_step(model, batch):
        first, second = loss_of(model, batch), loss_of(model, batch)
        yield "high", first
        yield "low", second

    with pytest.raises(EngineError, match="an optimizer step has changed since") as caught:
        make_engine(train_step=train_step, optimizers=two).fit(1)
    assert caught.value.next_step.startswith("compute the loss after that step")


@pytest.mark.parametrize(
    ("yielded", "given"),
    [
        ("loss", "train_step yielded a str"),
        (("critic", 1.0), "train_step yielded a loss for the optimizer 'critic'"),
        (("low", 1.0), "train_step returned float as its loss"),
        (None, "train_step yielded nothing"),
    ],
)
def test_anything_else_is_refused(make_engine: Any, yielded: Any, given: str) -> None:
    def train_step(model, batch):
        yield from [] if yielded is None else [yielded]

    with pytest.raises(EngineError) as caught:
        make_engine(train_step=train_step, optimizers=two).fit(1)
    assert caught.value.given == given
