"""Small runs in every flavour of the engine, that can be interrupted after any unit of work."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn
from torch.utils.data import DataLoader, Dataset

import growkit as gk
from growkit.train import RESET, Engine, Runtime, Settings, StepCallbackReturn

EPOCHS = 2


class Net(nn.Module):
    """A recurrent layer, dropout, and an output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(3, 4, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.output = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, carry: Any = None) -> tuple[torch.Tensor, Any]:
        h, carry = self.recurrent(x, carry)
        return self.output(self.dropout(h)), carry


class Sequences(Dataset):
    """9 sequences of 10 time steps: 5 batches of 2, the last one smaller."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        self.x, self.y = torch.randn(9, 10, 3, generator=generator), torch.randn(9, 10, 2, generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[index] + random.gauss(0, 0.01), "y": self.y[index]}


def _error(model: nn.Module, batch: Any, carry: Any = None) -> tuple[torch.Tensor, Any]:
    out, carry = model(batch["x"], carry)
    return (out - batch["y"]).square().mean(), carry


def automatic(model, batch):
    return _error(model, batch)[0]


def for_each(model, batch, optimizer):
    loss = _error(model, batch)[0]
    return loss if optimizer == "recurrent" else 2 * loss


def yielded(model, batch):
    loss = _error(model, batch)[0]
    yield "recurrent", loss
    yield "output", _error(model, batch)[0].square()


def manual(model, batch, flow):
    flow.zero_grad()
    loss = _error(model, batch)[0]
    flow.backward(loss)
    flow.step()
    return {"loss": loss}


def manual_every_second(model, batch, step, flow):
    """Accumulates by itself: after every other batch, gradients wait."""
    if step % 2 == 0:
        flow.zero_grad()
    loss = _error(model, batch)[0]
    flow.backward(loss)
    if step % 2:
        flow.step()
    return {"loss": loss}


def truncated(model, batch, carry):
    return _error(model, batch, carry)


def truncated_for_each(model, batch, carry, optimizer):
    return _error(model, batch, carry)


def truncated_manual(model, batch, carry, flow):
    flow.zero_grad()
    loss, carry = _error(model, batch, carry)
    flow.backward(loss)
    flow.step()
    return {"loss": loss}, carry


def pulled(model, data_iter):
    """Two batches in each call, where there are two."""
    loss = _error(model, next(data_iter))[0]
    if (batch := next(data_iter, None)) is not None:
        loss = loss + _error(model, batch)[0]
    return loss


SPLITS = {"truncated_bptt_steps": 4, "time_dims": 1}

FLAVOURS: Mapping[str, tuple[Callable[..., Any], bool, dict[str, Any]]] = {
    "automatic": (automatic, False, {}),
    "accumulated": (automatic, False, {"accumulate_steps": 2}),
    "two optimizers": (for_each, True, {}),
    "two optimizers, accumulated": (for_each, True, {"accumulate_steps": 3}),
    "yielded": (yielded, True, {}),
    "manual": (manual, True, {}),
    "manual, accumulated": (manual, False, {"accumulate_steps": 3}),
    "manual, accumulated by hand": (manual_every_second, False, {}),
    "splits": (truncated, False, SPLITS),
    "splits, two optimizers": (truncated_for_each, True, SPLITS),
    "splits, over batches": (truncated, False, SPLITS | {"carry_over_batches": True}),
    "splits, an update per batch": (truncated, False, SPLITS | {"update_every": "batch"}),
    "splits, an update per window": (truncated, False, SPLITS | {"update_every": "batch", "accumulate_steps": 2}),
    "splits, manual": (truncated_manual, False, SPLITS),
    "splits, manual, an update per window": (
        truncated_manual,
        False,
        SPLITS | {"update_every": "batch", "accumulate_steps": 2, "carry_over_batches": True},
    ),
    "data_iter": (pulled, False, {}),
}
"""Train step, whether there are two optimizers, and settings."""


@dataclass(frozen=True)
class Case:
    """What a run uses."""

    flavour: str = "automatic"
    shuffled: bool = True
    grow_at: int | None = None
    """Growth in the first window from this step on."""
    update_at: int | None = None
    """Settings updated in the first window from this step on, and back in that from the next epoch on."""
    scheduled: bool = False
    clipped: bool = False
    averaged: bool = False
    evaluated: bool = False
    log_every: int = 2
    checkpoint_every: int | None = None


class Seen:
    """Writes down each point that callbacks and hooks see; grows and updates when the case says so."""

    def __init__(self, case: Case):
        self.case = case
        self.points: list[tuple[Any, ...]] = []
        self.updated = False

    def train_epoch_callback(self, epoch, step, updates):
        self.points.append(("epoch", epoch, step, updates))
        if self.updated and epoch == 2:
            return StepCallbackReturn(config_updates={"gradient_clip_norm": RESET})
        return None

    def train_step_callback(self, epoch, step, updates, config, batch, metrics, **services):
        mean = float(batch["x"].double().mean())
        self.points.append(("step", epoch, step, updates, config.gradient_clip_norm, mean))
        self.points.append(("known", metrics.last, metrics.evaluation))
        if self.case.grow_at is not None and step >= self.case.grow_at:
            services["growth"].request("wide", widen={"recurrent.weight_hh_l0[1]": 2.0})
        if self.case.update_at is not None and step >= self.case.update_at and not self.updated:
            self.updated = True
            return StepCallbackReturn(config_updates={"gradient_clip_norm": 0.05, "user_rate": step})
        return None

    def on_train_step_end(self, epoch, step, updates):
        self.points.append(("done", epoch, step, updates))

    def on_epoch_end(self, epoch, step):
        self.points.append(("epoch done", epoch, step))

    def on_evaluation_end(self, results, epoch):
        self.points.append(("evaluated", epoch, *results.items()))

    def on_growth(self, step, parameters):
        self.points.append(("grown", step, parameters))

    def state_dict(self):
        return {"updated": self.updated}

    def load_state_dict(self, state):
        self.updated = state["updated"]


class Interruption:
    """A loop that does something after a number of units: before the engine does anything else about the last one."""

    def __init__(self, inner: Any, after: int | None, act: Callable[[], object]):
        self.inner, self.after, self.act, self.units = inner, after, act, 0

    def run(self, batch: Any, window: Any, carry: Any = None) -> Iterator[Any]:
        for outcome in self.inner.run(batch, window, carry):
            self.units += 1
            if self.units == self.after:
                self.act()
            yield outcome

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.inner.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.inner.load_state_dict(state["inner"])


@dataclass
class Run:
    """An engine, what its callbacks saw, and the loop that counts its units."""

    engine: Engine
    seen: Seen
    units: Interruption


def _two(model: Net) -> dict[str, torch.optim.Optimizer]:
    return {
        "recurrent": torch.optim.Adam(model.recurrent.parameters(), lr=0.01),
        "output": torch.optim.SGD(model.output.parameters(), lr=0.01, momentum=0.9),
    }


def make_run(
    case: Case, run_dir: Path | None, *, stop_after: int | None = None, act: Callable[[], object] | None = None
) -> Run:
    """A run of the case from the same seed; it stops after so many units of this process, or does `act` there."""
    train_step, several, settings = FLAVOURS[case.flavour]
    torch.manual_seed(1)
    random.seed(1)
    model, data = Net(), DataLoader(Sequences(), batch_size=2, shuffle=case.shuffled)
    seen = Seen(case)
    loops: list[Interruption] = []

    def interrupted(state: Any, inner: Any) -> Interruption:
        loops.append(Interruption(inner, stop_after, act or (lambda: engine.stop())))
        return loops[0]

    decays = [lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.7)] if case.scheduled else []
    engine = Engine(
        model,
        train_step,
        data,
        optimizers=_two if several else lambda model: torch.optim.AdamW(model.parameters(), lr=0.01),
        settings=Settings(
            log_every=case.log_every,
            gradient_clip_norm=0.5 if case.clipped else None,
            ema_decay=0.9 if case.averaged else None,
            evaluate_every=1 if case.evaluated else None,
            checkpoint_every=case.checkpoint_every,
            user={"user_rate": 0},
            **settings,
        ),
        runtime=Runtime(schedulers={name: decays for name in (("recurrent", "output") if several else ("main",))}),
        callbacks=[seen],
        services={} if case.grow_at is None else {"growth": gk.Growth(torch.zeros(2, 4, 3))},
        eval_step=(lambda model, batch: _error(model, batch)[0]) if case.evaluated else None,
        eval_data=DataLoader(Sequences(), batch_size=5) if case.evaluated else None,
        run_dir=run_dir,
        loops=[interrupted],
        console=Console(quiet=True),
    )
    return Run(engine, seen, loops[0])


def state_of(engine: Engine) -> dict[str, Any]:
    """All that a run leaves, by name: tensors and plain values."""
    state: dict[str, Any] = {f"model.{name}": value.clone() for name, value in engine.model.state_dict().items()}
    names = {parameter: name for name, parameter in engine.model.named_parameters()}
    for kind, optimizer in engine.optimizers.items():
        for parameter, slots in optimizer.state.items():
            state |= {f"{kind}.{names[parameter]}.{slot}": value for slot, value in slots.items()}
        for group in optimizer.param_groups:
            state |= {f"{kind}.{key}": value for key, value in group.items() if key != "params"}
    if engine.settings.ema_decay is not None:
        state |= {f"average.{name}": value.clone() for name, value in engine.runtime.averages.items()}
    if engine.progress.partial:
        state |= {f"gradient.{name}": p.grad for name, p in engine.model.named_parameters() if p.grad is not None}
    state |= {"progress": engine.progress, "history": engine.history, "evaluations": engine.evaluations}
    state |= {"settings": repr(engine.settings), "random": torch.get_rng_state(), "python": random.getstate()}
    return state


def unequal(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of what is not the same, to the last bit."""

    def same(a: Any, b: Any) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else bool(a == b)

    both = one.keys() & other.keys()
    return sorted(one.keys() ^ other.keys()) + sorted(name for name in both if not same(one[name], other[name]))
