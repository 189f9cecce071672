"""Truncated backpropagation through time in bf16 and fp16, against loops by hand and with interruptions."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler

from growkit.train import Engine, Runtime
from tests.train.test_tbptt_loop import adam, free, loss_and_state, make_engine, pieces, same, sequences, train_step


class Elman(nn.Module):
    """Of linear layers, which the CPU computes in fp16 too."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.turn, self.out = nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x, state=None):
        h = torch.zeros(len(x), 4) if state is None else state[0]
        outs = []
        for frame in x.unbind(1):
            h = torch.tanh(self.read(frame) + self.turn(h))
            outs.append(self.out(h))
        return torch.stack(outs, 1), (h,)


def make_elman() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Elman()


@pytest.mark.parametrize("scale", [8.0, 2.0**20])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("window", [None, 1, 2])
def test_in_lower_precision_it_equals_a_loop_by_hand_also_when_interrupted(
    precision: str, window: int | None, scale: float, tmp_path: Path
) -> None:
    """A step for each split, or for each window of batches; with fp16, scales that overflow and that do not."""
    data = [{key: v.float() if key != "name" else v for key, v in batch.items()} for batch in sequences()]
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    net = make_elman()
    optimizer, steps = adam(net), 0
    scaler = GradScaler("cpu", init_scale=scale, growth_interval=2, enabled=precision == "fp16")

    def step() -> None:
        nonlocal steps
        scaler.unscale_(optimizer)
        steps += all(bool(p.grad.isfinite().all()) for p in net.parameters())
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    for _ in range(3):
        for start in range(0, len(data), window or 1):
            part = data[start : start + (window or 1)]
            for batch in part:
                state = None
                for piece, weight in pieces(batch, 4):
                    with torch.autocast("cpu", dtype):
                        loss, state = loss_and_state(net, piece, state)
                    if window is not None:
                        loss = loss * weight
                    scaler.scale(loss / len(part) if len(part) > 1 else loss).backward()
                    state = free(state)
                    if window is None:
                        step()
            if window is not None:
                step()

    settings = {"precision": precision, "gradient_clip_norm": 0.05, "checkpoint_every": 99}
    if window is not None:
        settings |= {"update_every": "batch", "accumulate_steps": window}

    def run(stop_after: int | None) -> Engine:
        units = iter(range(1, 99))

        def counted(model, batch, carry):
            if next(units) == stop_after:
                engine.stop()
            return train_step(model, batch, carry)

        engine = make_engine(
            data,
            counted,
            model=make_elman(),
            settings=settings,
            run_dir=tmp_path,
            runtime=Runtime(scaler=GradScaler("cpu", init_scale=scale, growth_interval=2)),
        )
        engine.fit(3, resume="auto")
        return engine

    assert run(2).progress.split == 2  # Of 3: inside the first batch, then inside the second, third and fifth.
    for point in (3, 3, 6):
        assert run(point).progress.split == 2
    end = run(None)
    assert same(end.model, net)
    assert end.progress.updates == steps
    if precision == "fp16":
        assert end.runtime.scaling.scaler.state_dict() == scaler.state_dict()
        assert (end.progress.skipped > 0) == (scale > 8)
