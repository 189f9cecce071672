"""Processes that train together: the same decisions at the same points, or an error at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import distributed

from growkit.errors import EngineError

_SHOWN = 300


class Ranks:
    """The processes of `torch.distributed`, where it was initialised; one process alone otherwise."""

    @property
    def count(self) -> int:
        """How many processes train together."""
        return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1

    @property
    def own(self) -> int:
        """The number of this process among them, from 0."""
        return distributed.get_rank() if self.count > 1 else 0

    def agree(self, point: str, said: str) -> None:
        """Whether all ranks are at the same point of the run, and say the same there; every rank has to ask.

        Raises: EngineError, on every rank, that names those which differ from rank 0.
        """
        if self.count == 1:
            return
        answers = self.gather((point, said))
        differing = [rank for rank, answer in enumerate(answers) if answer != answers[0]]
        if not differing:
            return
        told = "".join(f"\n    rank {rank}: {at}: {what[:_SHOWN]}" for rank, (at, what) in enumerate(answers))
        raise EngineError(
            f"rank{'s' if len(differing) > 1 else ''} {', '.join(map(str, differing))} and rank 0 differ:{told}",
            "the same decision on every rank, at the same step, from the same amount of data",
            "decide from epoch, step and what all ranks share, not from a rank's own batch, loss or clock",
        )

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, in their order; on every rank."""
        if self.count == 1:
            return [value]
        answers: list[Any] = [None] * self.count
        distributed.all_gather_object(answers, value)
        return answers

    def broadcast(self, tensors: Iterable[torch.Tensor]) -> None:
        """Gives the tensors of every rank the values of rank 0."""
        if self.count == 1:
            return
        cpu_only = distributed.get_backend() == "gloo"
        for tensor in tensors:
            sent = tensor.detach()
            if not sent.is_contiguous() or (cpu_only == sent.is_cuda):
                sent = sent.contiguous().to("cpu" if cpu_only else "cuda")
            distributed.broadcast(sent, src=0)
            if sent.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(sent)
