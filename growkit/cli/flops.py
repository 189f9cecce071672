"""How much arithmetic a training run takes."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from growkit.cli.vowels import Batch


def step_flops(model: nn.Module, batch: Batch) -> int:
    """FLOPs of one training step, forward and backward, counted as they run; model and random numbers stay."""
    device = batch.features.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        model = copy.deepcopy(model).train()
        with FlopCounterMode(display=False) as counter:
            F.cross_entropy(model(batch.features, batch.lengths), batch.speakers).backward()
    return counter.get_total_flops()


class FlopMeter:
    """Adds up the FLOPs of training steps; those of equal sizes and batch shapes are counted once."""

    def __init__(self) -> None:
        self.total = 0
        self._known: dict[tuple[int, torch.Size], int] = {}

    def step(self, model: nn.Module, batch: Batch) -> None:
        """Adds one training step of the model as it is now."""
        key = sum(parameter.numel() for parameter in model.parameters()), batch.features.shape
        if key not in self._known:
            self._known[key] = step_flops(model, batch)
        self.total += self._known[key]


def steps_worth(flops: int, model: nn.Module, batches: Iterable[Batch]) -> int:
    """Training steps of the model on these batches, in order, until so many FLOPs are reached."""
    meter, steps = FlopMeter(), 0
    for batch in batches:
        if meter.total >= flops:
            break
        meter.step(model, batch)
        steps += 1
    return steps
