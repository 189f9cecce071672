"""The automatic flow against hand-written loops: bit-equal weights."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LambdaLR

from growkit.train import Runtime, Settings
from growkit.train.arguments import SignatureCall
from growkit.train.data_source import DataSource
from growkit.train.feed import Feed
from growkit.train.flow_automatic import AutomaticFlow
from growkit.train.loop import only_outcome
from growkit.train.optimizer_steps import OptimizerSteps
from growkit.train.window import Window


def equal(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


def by_hand(
    net: Any, batches: Any, loss_of: Any, *, window: int, clip: float | None, schedule: Any = None
) -> nn.Module:
    """Two epochs, written as one writes them without an engine."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    scheduler = None if schedule is None else LambdaLR(optimizer, schedule)
    for _ in range(2):
        for start in range(0, len(batches), window):
            part = batches[start : start + window]
            optimizer.zero_grad()
            for batch in part:
                (loss_of(net, batch) / len(part)).backward()
            if clip is not None:
                clip_grad_norm_(net.parameters(), clip)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
    return net


def halving(step: int) -> float:
    return 0.5**step


@pytest.mark.parametrize(
    ("window", "clip", "schedule"),
    [(1, None, None), (2, None, None), (3, None, None), (9, None, None), (1, 0.01, None), (2, 0.01, halving)],
)
def test_the_weights_equal_those_of_a_hand_written_loop(
    make_net: Any, make_engine: Any, batches: Any, loss_of: Any, window: int, clip: float | None, schedule: Any
) -> None:
    engine = make_engine(
        settings=Settings(accumulate_steps=window, gradient_clip_norm=clip),
        runtime=Runtime(schedulers=[] if schedule is None else [lambda optimizer: LambdaLR(optimizer, schedule)]),
    )
    engine.fit(2)
    expected = by_hand(make_net(), batches, loss_of, window=window, clip=clip, schedule=schedule)
    assert equal(engine.model, expected)
    assert not equal(engine.model, make_net())


@pytest.mark.report("R181")
@settings(deadline=None, max_examples=25)
@given(data=st.data(), accumulate=st.integers(1, 4), sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_the_gradients_of_a_window_are_those_of_its_mean_loss(
    data: st.DataObject, accumulate: int, sizes: list[int]
) -> None:
    """With SGD at rate 1 an update is minus the gradient; the reference is one backward of the mean loss."""
    torch.manual_seed(data.draw(st.integers(0, 999)))
    batches = [torch.randn(size, 2, dtype=torch.float64) for size in sizes]
    net = nn.Linear(2, 2).double()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    state = FlowState(net, optimizer)
    flow = make_flow(state, square)
    feed = Feed(DataSource(batches))
    feed.open(1, None)
    while not feed.exhausted:
        window = [feed.ahead(index) for index in range(feed.available(accumulate))]
        feed.advance(len(window))
        before = [p.detach().clone() for p in net.parameters()]
        mean = sum(square(net, batch) for batch in window) / len(window)
        expected = torch.autograd.grad(mean, list(net.parameters()))
        for index, batch in enumerate(window):
            only_outcome(flow.run(batch, Window(index == 0, index == len(window) - 1, len(window))))
        for parameter, old, gradient in zip(net.parameters(), before, expected, strict=True):
            torch.testing.assert_close(old - parameter, gradient, rtol=1e-12, atol=1e-12)


def square(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return (model(batch).square()).mean()


class FlowState:
    """The part of a run's state that the flow reads."""

    def __init__(self, net: nn.Module, optimizer: torch.optim.Optimizer):
        self.runtime = Runtime()
        self.runtime.bind(net, optimizer)
        self.settings = Settings()

    def offered_to_train_step(self, batch: Any) -> dict[str, Any]:
        return {"model": self.runtime.wrapped, "batch": batch}


def make_flow(state: Any, step: Callable[..., object]) -> AutomaticFlow:
    return AutomaticFlow(state, SignatureCall(step, ("model", "batch"), "train_step"), OptimizerSteps(state))


def test_the_outcome_holds_no_graph() -> None:
    net = nn.Linear(2, 1)
    state = FlowState(net, torch.optim.SGD(net.parameters(), lr=0.1))
    flow = make_flow(state, lambda model, batch: {"loss": model(batch).sum(), "size": 3})
    expected = net(torch.ones(1, 2)).sum().item()
    outcome = only_outcome(flow.run(torch.ones(1, 2), Window(first=True, last=False, length=4)))
    assert outcome.metrics == {"loss": expected, "size": 3.0}
    assert not outcome.metrics["loss"].requires_grad
    assert (outcome.updates, outcome.closed) == ({}, False)
