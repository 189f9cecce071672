"""What a train step or an eval step returned, in one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import torch

from growkit.errors import EngineError
from growkit.train.metrics import Measurement

RESERVED = ("epoch", "step", "updates", "skipped", "learning_rate", "parameters")
"""Names that a row of metrics has for itself."""

NO_CARRY = object()
"""In place of a carry where the train step returned none; None itself is a carry."""

_ALLOWED = (
    "a scalar loss tensor, or a dict with the key 'loss' and scalar metrics beside it; (either, carry) to hand on"
)
_ALLOWED_IN_EVAL = "one number, or a dict of numbers, with `count` for what they are means over"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one unit of work gave: a batch, or a split of one."""

    metrics: dict[str, torch.Tensor | float] = field(default_factory=dict)
    """Detached scalars, the loss among them."""
    carry: Any = NO_CARRY
    """What the next split gets."""
    updates: Mapping[str, int] = field(default_factory=dict)
    """Optimizer steps made, by name of the optimizer."""
    skipped: int = 0
    """Optimizer steps left out, since loss or gradients were not finite."""
    closed: bool = True
    """Whether no gradient waits for an optimizer step."""
    ends_batch: bool = True
    """Whether the batch is done with it."""
    weight: float = 1.0
    """What part of its batch the unit was: how much its metrics count in means."""
    batches: int = 1
    """Batches that were taken from the data, where it ends one."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a train step returned: a loss to differentiate, metrics to report, a carry to hand on."""

    loss: torch.Tensor | None
    """Scalar, attached to its graph; None where the step has no loss to give."""
    metrics: dict[str, torch.Tensor | float]
    """Detached scalars, the loss among them."""
    carry: Any = NO_CARRY


def as_step_result(result: object, *, needs_loss: bool = True) -> StepResult:
    """A train step's return value, in one form.

    needs_loss: whether a loss with a graph has to be there; else also None, and metrics alone, are allowed,
    and a loss is a metric like others.

    Raises: EngineError for anything but a scalar loss with a graph, alone or in a dict of scalars, with or
    without a carry.
    """
    carry: Any = NO_CARRY
    if isinstance(result, tuple) and not hasattr(result, "_fields"):
        if len(result) != 2:
            raise EngineError(
                f"train_step returned a tuple of {len(result)}", _ALLOWED, "return (loss, carry), or metrics in a dict"
            )
        result, carry = result
    given = dict(result) if isinstance(result, Mapping) else {} if result is None else {"loss": result}
    loss = given.pop("loss", None)
    if needs_loss:
        loss = _checked_loss(loss, result)
    metrics = {} if loss is None else {"loss": _scalar("loss", loss, _ALLOWED)}
    for name, value in given.items():
        metrics[str(name)] = _scalar(str(name), value, _ALLOWED)
    for name in metrics:
        if f"{name}_mean" in metrics:
            raise EngineError(
                f"metrics named {name!r} and '{name}_mean'",
                "names that leave <name>_mean free: rows have the mean of each metric there",
                "give one of them another name",
            )
    return StepResult(loss if isinstance(loss, torch.Tensor) else None, metrics, carry)


def _checked_loss(loss: object, result: object) -> torch.Tensor:
    if loss is None and isinstance(result, Mapping):
        raise EngineError(
            f"train_step returned a dict with the keys {sorted(map(str, result))}",
            _ALLOWED,
            "return the loss under the key 'loss'",
        )
    if not isinstance(loss, torch.Tensor):
        raise EngineError(
            f"train_step returned {type(loss).__name__} as its loss", _ALLOWED, "return the loss tensor itself"
        )
    if loss.is_complex():
        raise EngineError(f"train_step returned a loss of {loss.dtype}", _ALLOWED, "return a real one, as with .abs()")
    if loss.numel() != 1:
        raise EngineError(
            f"train_step returned a loss of shape {tuple(loss.shape)}", _ALLOWED, "reduce it, for example with .mean()"
        )
    if not loss.requires_grad:
        raise EngineError(
            "train_step returned a loss that depends on no trainable parameter",
            "a loss computed from the model's output, with gradients enabled",
            "look for .detach(), .item() or torch.no_grad() on the way to the loss",
        )
    return loss.reshape(())


def as_measurement(result: object) -> Measurement:
    """The measurement for an eval step's return value: one number, called `loss`, or a dict of numbers.

    `count` in the dict says over how many samples the other numbers are means.

    Raises: EngineError.
    """
    given = dict(result) if isinstance(result, Mapping) else {"loss": result}
    values = {str(name): _scalar(str(name), value, _ALLOWED_IN_EVAL) for name, value in given.items()}
    count = values.pop("count", None)
    if not values:
        raise EngineError("eval_step returned no metric", _ALLOWED_IN_EVAL, "return at least one number")
    return Measurement(values, count)


def _scalar(name: str, value: object, allowed: str) -> torch.Tensor | float:
    if name in RESERVED:
        raise EngineError(
            f"a metric named {name!r}", f"any name but {', '.join(RESERVED)}", "give the metric another name"
        )
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        if value.is_complex():
            raise EngineError(f"the metric {name!r} is of {value.dtype}", allowed, "return a real number for it")
        return value.detach().reshape(())
    if isinstance(value, Real):  # numpy's numbers are some
        try:
            return float(value)
        except OverflowError as error:
            raise EngineError(
                f"the metric {name!r} is larger than any float", allowed, "return it in another unit"
            ) from error
    shape = f" of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
    raise EngineError(f"the metric {name!r} is a {type(value).__name__}{shape}", allowed, "return one number for it")
