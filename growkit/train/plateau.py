"""Learning rates that go down where evaluations do not get better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from growkit.errors import EngineError


class ReduceOnEvaluation(ReduceLROnPlateau):
    """torch's ReduceLROnPlateau, told the number `metric` of each evaluation that `evaluate_every` asks for.

    What it took off stays where a `learning_rate` of the settings is put in force later: that is the base rate.

    metric: its name in what `eval_step` returns. mode: "min" or "max". options: as of ReduceLROnPlateau.

    >>> Runtime(schedulers=[lambda optimizer: ReduceOnEvaluation(optimizer, "loss", patience=2)])  # doctest: +SKIP
    """

    def __init__(self, optimizer: Optimizer, metric: str, mode: Any = "min", **options: Any):
        super().__init__(optimizer, mode, **options)
        self.metric = metric
        for group in optimizer.param_groups:
            rate = group["lr"]
            group.setdefault("initial_lr", rate.clone() if isinstance(rate, torch.Tensor) else rate)


def step_schedulers(schedulers: Iterable[LRScheduler]) -> None:
    """Steps those that count steps."""
    for scheduler in schedulers:
        if not isinstance(scheduler, ReduceOnEvaluation):
            scheduler.step()


def tell_evaluation(schedulers: Iterable[LRScheduler], results: Mapping[str, float]) -> None:
    """Steps those that wait for a number of an evaluation.

    Raises: EngineError where it is not among the results.
    """
    for scheduler in schedulers:
        if isinstance(scheduler, ReduceOnEvaluation):
            if scheduler.metric not in results:
                raise EngineError(
                    f"ReduceOnEvaluation by {scheduler.metric!r}, and an evaluation with {', '.join(results)}",
                    "a number that eval_step returns",
                    "give one of these names, or return it from eval_step",
                )
            scheduler.step(results[scheduler.metric])
