"""Processes that train together: the same decisions at the same points, or an error at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import takewhile
from typing import Any

import torch
from torch import distributed

from growkit.errors import EngineError

_SHOWN = 300


class RanksDiffer(EngineError):
    """Ranks are at different points of the run, or decided differently; each of them raises it, at the same time."""


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

        Raises: RanksDiffer, on every rank, that names those which differ from rank 0.
        """
        if self.count > 1:
            self._check_equal(f"{point}: {said}")

    def gather(self, point: str, value: Any) -> list[Any]:
        """The value of every rank, in their order; on every rank.

        Raises: RanksDiffer where the others are at another point of the run.
        """
        if self.count == 1:
            return [value]
        self._check_equal(point)
        return self._gathered(value)

    @contextmanager
    def leaving_together(self, point: str, possible: bool = True) -> Iterator[None]:
        """An exception of one rank inside the context is told to the others, at the point where they gather next.

        possible: whether no collective operation comes before that point on the others; else nothing is told.
        """
        try:
            yield
        except RanksDiffer:
            raise
        except Exception as error:
            if possible:
                self.agree(point, f"it raised {type(error).__name__}: {error}")
            raise

    @contextmanager
    def naming(self, point: str) -> Iterator[None]:
        """An exception of one rank inside the context says which rank it is of.

        It cannot be told to the others there: they wait in the collective operations of the wrapper's backward pass,
        which take nothing but gradients. They end when this process does.
        """
        try:
            yield
        except Exception as error:
            if self.count > 1:
                error.add_note(f"rank {self.own} of {self.count}, {point}: the others end when this process has ended")
            raise

    def broadcast(self, tensors: Iterable[torch.Tensor]) -> None:
        """Gives the tensors of every rank the values of rank 0."""
        if self.count == 1:
            return
        cpu_only = distributed.get_backend() == "gloo"
        for tensor in tensors:
            if tensor.numel() == 0:
                continue
            sent = tensor.detach().contiguous()
            if cpu_only == sent.is_cuda:
                sent = sent.to("cpu" if cpu_only else "cuda")
            distributed.broadcast(sent.reshape(-1).view(torch.uint8), src=0)  # As bytes: backends lack some dtypes.
            if sent.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(sent)

    @cached_property
    def _group(self) -> distributed.ProcessGroup | None:
        """For objects: on the CPU, so that no decision waits for work on a GPU."""
        return None if distributed.get_backend() == "gloo" else distributed.new_group(backend="gloo")

    def _gathered(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.count
        distributed.all_gather_object(values, value, group=self._group)
        return values

    def _check_equal(self, text: str) -> None:
        """Compares digests first: texts are gathered, which takes longer, only where these differ."""
        own = torch.frombuffer(bytearray(hashlib.sha256(text.encode()).digest()), dtype=torch.uint8)
        digests = [torch.empty_like(own) for _ in range(self.count)]
        distributed.all_gather(digests, own, group=self._group)
        if all(torch.equal(digest, own) for digest in digests):
            return
        told = self._gathered(text)
        differing = [rank for rank, text in enumerate(told) if text != told[0]]
        lines = "".join(f"\n    rank {rank}: {text}" for rank, text in enumerate(_from_difference(told)))
        raise RanksDiffer(
            f"rank{'s' if len(differing) > 1 else ''} {', '.join(map(str, differing))} and rank 0 differ:{lines}",
            "the same decision on every rank, at the same step, from the same amount of data",
            "decide from epoch, step and what all ranks share, not from a rank's own batch, loss or clock",
        )


def _from_difference(texts: list[str]) -> list[str]:
    """Long texts that begin alike, from a little before they differ."""
    alike = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))
    begin = max(0, alike - _SHOWN // 2)
    return [("..." if begin else "") + text[begin : begin + _SHOWN] for text in texts]
