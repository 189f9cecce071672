"""One training run of the demo, through the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.cli.flops import StepFlops
from growkit.cli.recipe import Recipe
from growkit.cli.stages import GrowInStages
from growkit.cli.vowels import Batch, JapaneseVowels, Utterances
from growkit.integrations.engine import Growth
from growkit.train import Engine, Runtime, Settings, StepCallbackReturn

ROWS_OF_METRICS = 12


@dataclass(frozen=True)
class Trained:
    """A network at the end of its run."""

    model: nn.Module
    steps: int
    losses: tuple[float, ...]
    """Training loss of each step."""
    training_flops: int
    test_accuracy: float

    @property
    def parameters(self) -> int:
        """Number of parameter entries."""
        return sum(parameter.numel() for parameter in self.model.parameters())


@dataclass(frozen=True)
class Bench:
    """What the runs of one demo share: the same data in the same order, the same random numbers."""

    data: JapaneseVowels
    seed: int
    device: torch.device
    console: Console
    flops: StepFlops = field(default_factory=StepFlops)

    def batches(self, batch_size: int, epoch: int) -> Iterator[Batch]:
        """The training batches of one epoch; their order follows from the seed and the epoch alone."""
        # Epochs stay far below a million, so that no two seeds share the order of an epoch.
        generator = torch.Generator().manual_seed(self.seed * 1_000_000 + epoch)
        return self.data.train.shuffled(batch_size, generator)

    def all_batches(self, batch_size: int) -> Iterator[Batch]:
        """The training batches, epoch after epoch without an end."""
        for epoch in count(1):
            for batch in self.batches(batch_size, epoch):
                yield batch.to(self.device)

    @property
    def fixed_batch(self) -> Batch:
        """Every twelfth test utterance: all speakers, always the same."""
        return self.data.test.batch(torch.arange(0, len(self.data.test), 12)).to(self.device)


def train(bench: Bench, recipe: Recipe, run_dir: Path, growths: GrowInStages | None = None) -> Trained:
    """Trains a fresh network by the recipe; `growths` grow it meanwhile. `run_dir` gets `metrics.jsonl`.

    The caller's random numbers stay as they are.
    """
    with torch.random.fork_rng([bench.device] if bench.device.type == "cuda" else []):
        torch.manual_seed(bench.seed)
        return _train(bench, recipe, run_dir, growths)


def _train(bench: Bench, recipe: Recipe, run_dir: Path, growths: GrowInStages | None) -> Trained:
    losses: list[Tensor] = []
    flops: list[int] = []

    def train_data(*, epoch: int, batch_size: int) -> Iterator[Batch]:
        return bench.batches(batch_size, epoch)

    def train_step(model: nn.Module, batch: Batch) -> Mapping[str, Tensor]:
        flops.append(bench.flops(model, batch))
        noisy = batch.features + recipe.noise * torch.randn_like(batch.features)
        logits = model(noisy, batch.lengths)
        loss = F.cross_entropy(logits, batch.speakers, label_smoothing=recipe.label_smoothing)
        losses.append(loss.detach())
        return {"loss": loss}

    def lower_learning_rate(step: int, config: Settings) -> StepCallbackReturn | None:
        if step < recipe.last_learning_rate_from or config.learning_rate == recipe.last_learning_rate:
            return None
        return StepCallbackReturn(config_updates={"learning_rate": recipe.last_learning_rate})

    fixed = bench.fixed_batch
    growth = {"growth": Growth((fixed.features, fixed.lengths), seed=bench.seed)} if growths else {}
    engine = Engine(
        recipe.sizes.build(),
        train_step,
        train_data,
        optimizers=lambda model: torch.optim.AdamW(model.parameters(), weight_decay=recipe.weight_decay),
        settings=Settings(
            learning_rate=recipe.learning_rate,
            batch_size=recipe.batch_size,
            log_every=max(1, recipe.steps // ROWS_OF_METRICS),
        ),
        callbacks=[lower_learning_rate, *([growths] if growths else [])],
        services=growth,
        run_dir=run_dir,
        runtime=Runtime(device=bench.device),
        console=bench.console,
    )
    engine.fit(max_steps=recipe.steps)
    return Trained(
        model=engine.model,
        steps=recipe.steps,
        losses=tuple(torch.stack(losses).tolist()),
        training_flops=sum(flops),
        test_accuracy=accuracy(engine.model, bench.data.test, bench.device),
    )


@torch.no_grad()
def accuracy(model: nn.Module, utterances: Utterances, device: torch.device) -> float:
    """Share of the utterances whose speaker is recognised; leaves the model in evaluation mode."""
    model.eval()
    right = 0
    for batch in utterances.in_order(128):
        batch = batch.to(device)
        right += int((model(batch.features, batch.lengths).argmax(-1) == batch.speakers).sum())
    return right / len(utterances)
