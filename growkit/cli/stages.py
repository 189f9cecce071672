"""The growths of the demo: asked for by a step callback, measured, and written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_model
from torch import nn
from torch.nn import functional as F

from growkit.cli.recipe import Kind, Stage
from growkit.cli.vowels import Batch
from growkit.growth.report import Report
from growkit.integrations.engine import Growth
from growkit.train import StepCallbackReturn


@dataclass(frozen=True)
class GrowthRecord:
    """One growth in numbers; the losses are those of one fixed batch right before and right after it."""

    step: int
    kind: Kind
    parameters_before: int
    parameters_after: int
    max_rel_deviation: float
    loss_before: float
    loss_after: float


Show = Callable[[Stage, GrowthRecord, Report], None]


class GrowInStages:
    """The step callback: one growth at each point at which a stage is due.

    `batch`: the fixed batch for the losses. `folder` gets a folder for each growth, with the weights before and
    after it and its plan. `show` is called after each.
    """

    def __init__(self, stages: Sequence[Stage], batch: Batch, folder: Path, show: Show):
        self.records: list[GrowthRecord] = []
        self._stages, self._batch, self._folder, self._show = stages, batch, folder, show

    def train_step_callback(self, step: int, model: nn.Module, growth: Growth) -> StepCallbackReturn | None:
        """Grows the model if a stage is due."""
        due = [stage for stage in self._stages if stage.step <= step and stage.name not in growth.done]
        return self._grow(due[0], step, model, growth) if due else None

    def _grow(self, stage: Stage, step: int, model: nn.Module, growth: Growth) -> StepCallbackReturn | None:
        folder = self._folder / f"{len(self.records) + 1}-{stage.kind}"
        folder.mkdir(parents=True, exist_ok=True)
        save_model(model, str(folder / "before.safetensors"))
        loss_before = evaluation_loss(model, self._batch)
        change = growth.request(stage.name, widen=stage.widen, deepen=stage.deepen)
        report = growth.reports[-1]
        assert report.verification is not None
        record = GrowthRecord(
            step=step,
            kind=stage.kind,
            parameters_before=report.before.parameters,
            parameters_after=report.after.parameters,
            max_rel_deviation=report.verification.max_rel,
            loss_before=loss_before,
            loss_after=evaluation_loss(model, self._batch),
        )
        save_model(model, str(folder / "after.safetensors"))
        (folder / "plan.json").write_text(report.plan.to_json() + "\n", encoding="utf-8")
        self.records.append(record)
        self._show(stage, record, report)
        return change


@torch.no_grad()
def evaluation_loss(model: nn.Module, batch: Batch) -> float:
    """Mean cross entropy of a batch in evaluation mode, in nats; the model's mode stays."""
    was_training = model.training
    model.eval()
    loss = F.cross_entropy(model(batch.features, batch.lengths), batch.speakers).item()
    model.train(was_training)
    return loss
