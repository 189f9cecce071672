"""One training run of the demo."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from growkit.cli.flops import step_flops
from growkit.cli.recipe import Recipe
from growkit.cli.training import Bench, accuracy, train
from growkit.cli.vowels import JapaneseVowels, load_vowels


@pytest.fixture(scope="module")
def data() -> JapaneseVowels:
    return load_vowels()


def bench(data: JapaneseVowels, seed: int = 0) -> Bench:
    return Bench(data, seed, torch.device("cpu"), Console(quiet=True))


def test_the_order_follows_from_seed_and_epoch(data: JapaneseVowels) -> None:
    def speakers(seed: int, epoch: int) -> list[int]:
        return torch.cat([batch.speakers for batch in bench(data, seed).batches(16, epoch)]).tolist()

    assert speakers(0, 1) == speakers(0, 1)
    assert len({tuple(speakers(seed, epoch)) for seed in (0, 1) for epoch in (1, 2)}) == 4


def test_all_batches_are_one_epoch_after_the_other(data: JapaneseVowels) -> None:
    shared = bench(data)
    epochs = [batch for epoch in (1, 2) for batch in shared.batches(100, epoch)]
    for batch, expected in zip(shared.all_batches(100), epochs, strict=False):
        assert torch.equal(batch.features, expected.features)


def test_the_fixed_batch_has_every_speaker(data: JapaneseVowels) -> None:
    assert bench(data).fixed_batch.speakers.unique().tolist() == list(range(9))


def test_a_run_can_be_repeated_and_leaves_the_random_numbers(data: JapaneseVowels, tmp_path: Path) -> None:
    recipe = Recipe().scaled(8).ungrown()
    torch.manual_seed(5)
    first = train(bench(data), recipe, tmp_path / "first")
    drawn = torch.rand(2)
    torch.manual_seed(6)
    second = train(bench(data), recipe, tmp_path / "second")
    other = train(bench(data, seed=1), recipe, tmp_path / "other")
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(2))
    assert first.losses == second.losses
    assert first.losses != other.losses
    assert len(first.losses) == first.steps == 8


def test_learning_rate_and_flops(data: JapaneseVowels, tmp_path: Path) -> None:
    recipe = Recipe(steps=4, stages=(), last_learning_rate_from=2)
    shared = bench(data)
    run = train(shared, recipe, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    # A row is written after its step and holds the rate of that step.
    assert [row["learning_rate"] for row in rows] == [0.005, 0.005, 0.002, 0.002]
    assert run.training_flops == sum(step_flops(run.model, batch) for batch in islice(shared.all_batches(16), 4))


class Always(nn.Module):
    """One speaker, whatever it hears."""

    def __init__(self, speaker: int):
        super().__init__()
        self.logits = nn.Buffer(torch.eye(9)[speaker])

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        return self.logits.expand(len(features), 9)


@pytest.mark.parametrize(("speaker", "utterances"), [(0, 31), (2, 88)])
def test_accuracy(data: JapaneseVowels, speaker: int, utterances: int) -> None:
    assert accuracy(Always(speaker), data.test, torch.device("cpu")) == utterances / 370
