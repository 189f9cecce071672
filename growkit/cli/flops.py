"""How much arithmetic a training run takes."""

from __future__ import annotations

import copy

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
    """Adds up the FLOPs of a run, each step as one on the same batch at the size that the model has then."""

    def __init__(self, batch: Batch):
        self.total = 0
        self.last = 0
        """Those of the last step alone."""
        self._batch = batch
        self._of_size: dict[int, int] = {}

    def step(self, model: nn.Module) -> None:
        """Adds one training step of the model as it is now."""
        size = sum(parameter.numel() for parameter in model.parameters())
        if size not in self._of_size:
            self._of_size[size] = step_flops(model, self._batch)
        self.last = self._of_size[size]
        self.total += self.last
