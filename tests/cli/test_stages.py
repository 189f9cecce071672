"""Growths asked for by the step callback."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from growkit.cli.recipe import Recipe, Stage
from growkit.cli.stages import GrowInStages, GrowthRecord, evaluation_loss
from growkit.cli.training import Bench, train
from growkit.cli.vowels import Batch, load_vowels
from growkit.growth.report import Report


def test_two_stages_that_are_due_grow_at_two_points(tmp_path: Path) -> None:
    bench = Bench(load_vowels(), 0, torch.device("cpu"), Console(quiet=True))
    stages = (Stage(1, "deeper", num_layers=2), Stage(1, "wider", {"ffn_dim": 2.0}))
    shown: list[tuple[Stage, GrowthRecord, Report]] = []
    growths = GrowInStages(stages, bench.fixed_batch, tmp_path / "growths", lambda *what: shown.append(what))
    run = train(bench, Recipe(steps=4, stages=stages), tmp_path, growths)
    assert [(record.step, record.kind) for record in growths.records] == [(1, "depth"), (2, "width")]
    assert [what[:2] for what in shown] == list(zip(stages, growths.records, strict=True))
    assert [record.parameters_after for record in growths.records] == [
        growths.records[1].parameters_before,
        run.parameters,
    ]
    assert sorted(path.name for path in (tmp_path / "growths").iterdir()) == ["1-depth", "2-width"]


class Zeros(nn.Module):
    """Equal logits in evaluation mode, an error in training mode."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        assert not self.training
        return torch.zeros(len(features), 9)


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_loss(training: bool) -> None:
    model = Zeros().train(training)
    batch = Batch(torch.zeros(2, 3, 12), torch.tensor([3, 1]), torch.tensor([0, 8]))
    assert evaluation_loss(model, batch) == pytest.approx(log(9))
    assert model.training is training
