"""The manual flow against the automatic one and hand-written loops: bit-equal weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from growkit.errors import EngineError
from growkit.train import Runtime, Settings


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


@pytest.fixture
def manual(loss_of: Any) -> Any:
    def train_step(model, batch, flow):
        flow.zero_grad()
        loss = loss_of(model, batch)
        flow.backward(loss)
        flow.step()
        return {"loss": loss}

    return train_step


def stepping_first(loss_of: Any) -> Any:
    def train_step(model, batch, flow):
        loss = loss_of(model, batch)
        flow.backward(loss)
        flow.step()
        flow.zero_grad()
        return {"loss": loss}

    return train_step


@pytest.mark.parametrize("window", [1, 2, 3])
def test_gradients_may_be_cleared_after_the_step_as_well(
    make_engine: Any, manual: Any, loss_of: Any, window: int
) -> None:
    engines = [
        make_engine(settings=Settings(accumulate_steps=window), train_step=step)
        for step in (manual, stepping_first(loss_of))
    ]
    for engine in engines:
        engine.fit(2)
    assert same(engines[0].model, engines[1].model)


@pytest.mark.parametrize("window", [1, 2, 3, 9])
def test_it_does_what_the_automatic_flow_does(make_engine: Any, manual: Any, window: int) -> None:
    def schedules() -> Runtime:
        return Runtime(schedulers=[lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)])

    settings = Settings(accumulate_steps=window, gradient_clip_norm=0.02)
    engines = [
        make_engine(settings=settings, runtime=schedules(), train_step=manual),
        make_engine(settings=settings, runtime=schedules()),
    ]
    for engine in engines:
        engine.fit(2)
    assert same(engines[0].model, engines[1].model)
    assert engines[0].progress == engines[1].progress
    assert engines[0].history == engines[1].history


def test_several_steps_in_one_batch_are_the_users(make_net: Any, make_engine: Any, batches: Any, loss_of: Any) -> None:
    def twice(model, batch, flow):
        for _ in range(2):
            flow.zero_grad()
            flow.backward(loss_of(model, batch))
            flow.step()

    engine = make_engine(train_step=twice)
    engine.fit(1)
    net = make_net()
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    for batch in batches:
        for _ in range(2):
            adam.zero_grad()
            loss_of(net, batch).backward()
            adam.step()
    assert same(engine.model, net)
    assert engine.progress.updates == 2 * len(batches)


def test_accumulation_by_hand_opens_a_window_in_which_callbacks_wait(
    make_net: Any, make_engine: Any, batches: Any, loss_of: Any
) -> None:
    called: list[int] = []

    def every_third(model, batch, flow, step):
        flow.backward(loss_of(model, batch))
        if step % 3 == 2:
            flow.step()
            flow.zero_grad()

    engine = make_engine(train_step=every_third, callbacks=[lambda step: called.append(step)])
    engine.fit(max_steps=5)
    net = make_net()
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    for batch in batches[:3]:
        loss_of(net, batch).backward()
    adam.step()
    assert same(engine.model, net)
    assert called == [0, 3]
    assert engine.progress.partial


@pytest.mark.parametrize("inside", ["nothing", "PullingLoop", "TbpttLoop"])
def test_gradients_that_wait_do_so_after_a_resume(make_engine: Any, loss_of: Any, tmp_path: Path, inside: str) -> None:
    """The unit that goes on neither adds to them nor steps."""
    called: list[int] = []

    def every_third(model, batch, flow, step):
        if step % 3 != 1:
            flow.backward(loss_of(model, batch))
        if step % 3 == 2:
            flow.step()
            flow.zero_grad()

    def pulling(model, data_iter, flow, step):
        every_third(model, next(data_iter), flow, step)

    def carrying(model, batch, carry, flow, step):
        every_third(model, batch, flow, step)
        return None, None

    train_step = {"nothing": every_third, "PullingLoop": pulling, "TbpttLoop": carrying}[inside]

    def make(name: str) -> Any:
        return make_engine(
            train_step=train_step,
            settings=Settings(carry_over_batches=train_step is carrying, checkpoint_every=1),
            callbacks=[lambda step: called.append(step)],
            run_dir=tmp_path / name,
        )

    parts, whole = make("parts"), make("whole")
    make("parts").fit(max_steps=1)
    parts.fit(max_steps=5, resume="auto")
    assert called == [0, 3]
    whole.fit(max_steps=5)
    assert same(parts.model, whole.model)


@pytest.mark.parametrize("forgetful", [False, True])
def test_gradients_behind_a_step_are_kept_too(
    make_net: Any, make_engine: Any, loss_of: Any, tmp_path: Path, forgetful: bool
) -> None:
    """Those of another optimizer, which waits, and those that nobody clears."""

    def optimizers(model):
        first, second = list(model.parameters())[:2], list(model.parameters())[2:]
        return {"first": torch.optim.SGD(first, lr=0.05), "second": torch.optim.SGD(second, lr=0.05)}

    def train_step(model, batch, flow, step):
        flow.backward(loss_of(model, batch))
        flow.step("first")
        if not forgetful:
            flow.zero_grad("first")
        if step % 3 == 2:
            flow.step("second")
            flow.zero_grad("second")

    def make(name: str) -> Any:
        settings = Settings(checkpoint_every=1)
        return make_engine(
            model=make_net(), optimizers=optimizers, train_step=train_step, settings=settings, run_dir=tmp_path / name
        )

    parts, whole = make("parts"), make("whole")
    make("parts").fit(max_steps=2)
    parts.fit(max_steps=5, resume="auto")
    whole.fit(max_steps=5)
    assert same(parts.model, whole.model)


@pytest.mark.report("R176")
def test_clipping_is_that_of_the_gradients_themselves(
    make_net: Any, make_engine: Any, batches: Any, manual: Any, loss_of: Any
) -> None:
    engine = make_engine(train_step=manual, settings=Settings(gradient_clip_norm=0.01))
    engine.fit(max_steps=1)
    net = make_net()
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    loss_of(net, batches[0]).backward()
    clip_grad_norm_(net.parameters(), 0.01)
    adam.step()
    assert same(engine.model, net)


def test_what_is_no_loss_or_no_optimizer_is_refused(make_engine: Any, loss_of: Any) -> None:
    kept: list[Any] = []

    def wrong_name(model, batch, flow):
        kept.append(flow)
        flow.step("critic")

    with pytest.raises(EngineError, match="the optimizer 'critic'"):
        make_engine(train_step=wrong_name).fit(1)
    with pytest.raises(EngineError, match=r"flow\.backward of tensor"):
        make_engine(train_step=lambda model, batch, flow: flow.backward(loss_of(model, batch).detach())).fit(1)
    with pytest.raises(EngineError, match="a flow outside of its train step"):
        kept[0].step()
