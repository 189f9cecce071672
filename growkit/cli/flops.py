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


class StepFlops:
    """FLOPs of training steps; counted once for each size of the network and shape of the batch."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, torch.Size], int] = {}

    def __call__(self, model: nn.Module, batch: Batch) -> int:
        """As `step_flops`, for networks of one kind: the number of parameters tells their sizes apart."""
        key = sum(parameter.numel() for parameter in model.parameters()), batch.features.shape
        if key not in self._known:
            self._known[key] = step_flops(model, batch)
        return self._known[key]

    def steps_worth(self, flops: int, model: nn.Module, batches: Iterable[Batch]) -> int:
        """Training steps of the model on these batches, in order, until so many FLOPs are reached."""
        steps = 0
        for batch in batches:
            if flops <= 0:
                break
            flops -= self(model, batch)
            steps += 1
        return steps
