"""What a train step or an eval step returned, in one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from growkit.errors import EngineError
from growkit.train.metrics import Measurement

RESERVED = ("epoch", "step", "updates", "learning_rate", "parameters")
"""Names that a row of metrics has for itself."""

_ALLOWED = "a scalar loss tensor, or a dict with the key 'loss' and scalar metrics beside it"
_ALLOWED_IN_EVAL = "one number, or a dict of numbers, with `count` for what they are means over"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A loss to differentiate, and metrics to report."""

    loss: torch.Tensor
    """Scalar, attached to its graph."""
    metrics: dict[str, torch.Tensor | float] = field(default_factory=dict)
    """Detached scalars, the loss among them."""

    def detached(self) -> Outcome:
        """The same without the graph, so that its activations can be freed."""
        return Outcome(self.loss.detach(), self.metrics)


def as_outcome(result: object) -> Outcome:
    """The outcome for a train step's return value.

    Raises: EngineError for anything but a scalar loss with a graph, alone or in a dict of scalars.
    """
    if isinstance(result, Mapping):
        if "loss" not in result:
            raise EngineError(
                f"train_step returned a dict with the keys {sorted(map(str, result))}",
                _ALLOWED,
                "return the loss under the key 'loss'",
            )
        loss = result["loss"]
        others = {str(name): value for name, value in result.items() if name != "loss"}
    else:
        loss, others = result, {}
    if not isinstance(loss, torch.Tensor):
        raise EngineError(
            f"train_step returned {type(loss).__name__} as its loss", _ALLOWED, "return the loss tensor itself"
        )
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
    metrics: dict[str, torch.Tensor | float] = {"loss": loss.detach().reshape(())}
    for name, value in others.items():
        metrics[name] = _scalar(name, value, _ALLOWED)
    return Outcome(loss.reshape(()), metrics)


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
        return value.detach().reshape(())
    if isinstance(value, int | float):
        return float(value)
    shape = f" of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else ""
    raise EngineError(f"the metric {name!r} is a {type(value).__name__}{shape}", allowed, "return one number for it")
