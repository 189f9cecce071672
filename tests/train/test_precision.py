"""Autocast and loss scaling: bit-equal to hand-written loops, and what they leave behind."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import StepLR

from growkit.errors import EngineError
from growkit.train import Runtime, Settings
from tests.train.test_flow_automatic import equal

HUGE = 2.0**20
"""A loss scale under which fp16 gradients of the nets here overflow, for as many updates as it takes."""


@pytest.fixture
def make_float_net(make_net: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    return lambda *given: make_net(*given).float()


@pytest.fixture
def float_batches(batches: Any) -> list[Any]:
    return [(x.float(), y.float()) for x, y in batches]


@pytest.fixture
def make_float_engine(make_engine: Any, make_float_net: Any, float_batches: Any) -> Any:
    return lambda **given: make_engine(**({"model": make_float_net(), "train_data": float_batches} | given))


def forward(net: nn.Module, batch: Any, dtype: torch.dtype) -> torch.Tensor:
    with torch.autocast("cpu", dtype):
        return (net(batch[0]) - batch[1]).square().mean()


def test_bf16_with_accumulation_and_clipping_equals_a_loop_by_hand(
    make_float_net: Any, make_float_engine: Any, float_batches: Any
) -> None:
    net = make_float_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(2):
        for start in range(0, 5, 2):
            part = float_batches[start : start + 2]
            optimizer.zero_grad()
            for batch in part:
                (forward(net, batch, torch.bfloat16) / len(part)).backward()
            clip_grad_norm_(net.parameters(), 0.1)
            optimizer.step()
    engine = make_float_engine(settings=Settings(precision="bf16", accumulate_steps=2, gradient_clip_norm=0.1))
    engine.fit(2)
    assert equal(engine.model, net)
    full = make_float_engine(settings=Settings(accumulate_steps=2, gradient_clip_norm=0.1))
    full.fit(2)
    assert not equal(engine.model, full.model)


def by_hand_fp16(net: Any, batches: Any, *, window: int, scale: float) -> tuple[nn.Module, GradScaler, int]:
    """Three epochs as torch's notes on mixed precision write them; how many steps were made, too."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    scheduler = StepLR(optimizer, 2, gamma=0.7)
    scaler = GradScaler("cpu", init_scale=scale, growth_interval=2)
    steps = 0
    for _ in range(3):
        for start in range(0, len(batches), window):
            part = batches[start : start + window]
            optimizer.zero_grad()
            for batch in part:
                scaler.scale(forward(net, batch, torch.float16) / len(part)).backward()
            scaler.unscale_(optimizer)
            finite = all(bool(p.grad.isfinite().all()) for p in net.parameters())
            clip_grad_norm_(net.parameters(), 0.1)
            scaler.step(optimizer)
            if finite:
                scheduler.step()
                steps += 1
            scaler.update()
    return net, scaler, steps


@pytest.mark.report("R086")
@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("scale", [8.0, HUGE])
def test_fp16_with_overflows_equals_a_loop_by_hand(
    make_float_net: Any, make_float_engine: Any, float_batches: Any, window: int, scale: float
) -> None:
    net, scaler, steps = by_hand_fp16(make_float_net(), float_batches, window=window, scale=scale)
    windows = 3 * -(-5 // window)
    assert (steps < windows) == (scale == HUGE)
    assert steps > 2
    engine = make_float_engine(
        settings=Settings(precision="fp16", accumulate_steps=window, gradient_clip_norm=0.1, log_every=1),
        runtime=Runtime(
            scaler=GradScaler("cpu", init_scale=scale, growth_interval=2),
            schedulers=[lambda optimizer: StepLR(optimizer, 2, gamma=0.7)],
        ),
    )
    engine.fit(3)
    assert equal(engine.model, net)
    assert engine.runtime.scaling.scaler.state_dict() == scaler.state_dict()
    assert engine.progress.updates == steps
    assert engine.progress.skipped == windows - steps
    assert engine.history[-1].get("skipped", 0) == windows - steps


@pytest.mark.report("R087")
@pytest.mark.parametrize("stop", [1, 4, 7])
def test_a_saved_scale_goes_on(make_float_engine: Any, stop: int) -> None:
    def make(scale: float) -> Any:
        scaler = GradScaler("cpu", init_scale=scale, growth_interval=3)
        return make_float_engine(settings=Settings(precision="fp16"), runtime=Runtime(scaler=scaler))

    whole, first, second = make(HUGE), make(HUGE), make(8.0)
    whole.fit(3)
    first.fit(max_steps=stop)
    second.model.load_state_dict(first.model.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    second.runtime.load_state_dict(first.runtime.state_dict())
    second._loop.load_state_dict(first._loop.state_dict())
    second.fit(3)
    assert equal(second.model, whole.model)
    assert second.runtime.state_dict() == whole.runtime.state_dict()
    assert second.progress == whole.progress


def test_an_infinite_loss_before_an_interruption_is_no_overflow(make_float_engine: Any, tmp_path: Any) -> None:
    """The window is closed by a finite one."""

    def train_step(model, batch, step):
        return (model(batch[0]) - batch[1]).square().mean() / (0.0 if step == 0 else 1.0)

    def make() -> Any:
        settings = Settings(precision="fp16", accumulate_steps=2)
        return make_float_engine(train_step=train_step, settings=settings, run_dir=tmp_path, callbacks=[Stopping()])

    class Stopping:
        def on_train_step_end(self, step):
            if step == 0:
                first.stop()

    first, second = make(), make()
    first.fit(1)
    assert first.progress.micro == 1
    with pytest.raises(EngineError, match="at step 1, with a loss of"):
        second.fit(1, resume="auto")


@pytest.mark.report("R176")
def test_the_manual_flow_unscales_before_it_clips(
    make_float_net: Any, make_float_engine: Any, float_batches: Any
) -> None:
    def train_step(model, batch, flow):
        flow.zero_grad()
        flow.backward((model(batch[0]) - batch[1]).square().mean())
        flow.step()

    net, scaler, _ = by_hand_fp16(make_float_net(), float_batches, window=2, scale=HUGE)
    engine = make_float_engine(
        train_step=train_step,
        settings=Settings(precision="fp16", accumulate_steps=2, gradient_clip_norm=0.1),
        runtime=Runtime(
            scaler=GradScaler("cpu", init_scale=HUGE, growth_interval=2),
            schedulers=[lambda optimizer: StepLR(optimizer, 2, gamma=0.7)],
        ),
    )
    engine.fit(3)
    assert equal(engine.model, net)
    assert engine.runtime.scaling.scaler.state_dict() == scaler.state_dict()


def test_a_manual_step_computes_with_the_weights_that_it_has_just_made(
    make_float_net: Any, make_float_engine: Any, float_batches: Any
) -> None:
    """Inside one autocast region torch would go on with the casts of the old ones."""

    def train_step(model, batch, flow):
        for _ in range(2):
            flow.zero_grad()
            flow.backward((model(batch[0]) - batch[1]).square().mean())
            flow.step()

    net = make_float_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    for batch in float_batches:
        for _ in range(2):
            optimizer.zero_grad()
            forward(net, batch, torch.bfloat16).backward()
            optimizer.step()
    engine = make_float_engine(train_step=train_step, settings=Settings(precision="bf16"))
    engine.fit(1)
    assert engine.progress.updates == 10
    assert equal(engine.model, net)


def two(model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    return {
        "first": torch.optim.SGD(model[0].parameters(), lr=0.1),
        "second": torch.optim.SGD(model[2].parameters(), lr=0.1),
    }


@pytest.mark.parametrize("how", ["optimizer", "yield"])
def test_several_optimizers_share_one_scale_that_is_updated_once_a_batch(
    make_float_net: Any, make_float_engine: Any, float_batches: Any, how: str
) -> None:
    net, scaler = make_float_net(), GradScaler("cpu", init_scale=HUGE, growth_interval=2)
    for batch in float_batches * 3:
        for name, optimizer in two(net).items():
            optimizer.zero_grad()
            loss = forward(net, batch, torch.float16) * (1 if name == "first" else 3)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        scaler.update()

    def one_by_one(model, batch, optimizer):
        return (model(batch[0]) - batch[1]).square().mean() * (1 if optimizer == "first" else 3)

    def yielding(model, batch):
        for name in ("first", "second"):
            yield name, one_by_one(model, batch, name)

    engine = make_float_engine(
        train_step=one_by_one if how == "optimizer" else yielding,
        optimizers=two,
        settings=Settings(precision="fp16"),
        runtime=Runtime(scaler=GradScaler("cpu", init_scale=HUGE, growth_interval=2)),
    )
    engine.fit(3)
    assert equal(engine.model, net)
    assert engine.runtime.scaling.scaler.state_dict() == scaler.state_dict()
    assert 0 < engine.progress.skipped < 15


def test_gradients_of_another_scale_are_refused(make_float_engine: Any) -> None:
    """Both get gradients; the step of the first ends the batch, and its scale with it."""

    def train_step(model, batch, flow, step):
        if step == 0:
            flow.backward((model(batch[0]) - batch[1]).square().mean())
            flow.step("first")
        else:
            flow.step("second")

    settings = {"train_step": train_step, "optimizers": two}
    make_float_engine(**settings, settings=Settings(precision="bf16")).fit(max_steps=2)
    with pytest.raises(EngineError, match="gradients of the optimizer 'second' from before the loss scale"):
        make_float_engine(**settings, settings=Settings(precision="fp16")).fit(max_steps=2)


@pytest.mark.report("R086")
def test_an_error_inside_a_step_leaves_the_scale_usable(make_float_engine: Any) -> None:
    def train_step(model, batch, flow):
        flow.zero_grad()
        flow.backward((model(batch[0]) - batch[1]).square().mean())
        flow.step()
        if fail:
            raise KeyboardInterrupt

    fail = True
    engine = make_float_engine(train_step=train_step, settings=Settings(precision="fp16"))
    with pytest.raises(KeyboardInterrupt):
        engine.fit(1)
    fail = False
    engine.fit(1)
    assert engine.progress.updates == 5


def test_evaluations_compute_in_the_precision_of_the_training(make_float_engine: Any, float_batches: Any) -> None:
    seen = []

    def eval_step(model, batch):
        seen.append(model(batch[0]).dtype)
        return 0.0

    engine = make_float_engine(settings=Settings(precision="bf16"), eval_step=eval_step, eval_data=float_batches[:1])
    engine.evaluate()
    assert seen == [torch.bfloat16]


def test_weights_in_float16_are_not_for_loss_scaling(make_float_engine: Any, make_float_net: Any) -> None:
    with pytest.raises(EngineError, match=r"precision='fp16' for 4 weights in float16, such as 0\.weight"):
        make_float_engine(model=make_float_net().half(), settings=Settings(precision="fp16"))
