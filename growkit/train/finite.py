"""Whether gradients are finite, and what to say if not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.nn.utils import get_total_norm

from growkit.errors import EngineError

_SHOWN = 4


def gradient_norm(parameters: Iterable[nn.Parameter]) -> torch.Tensor:
    """The norm of all gradients together, one number on the device: finite only if all of them are."""
    return get_total_norm([_values(parameter.grad) for parameter in parameters if parameter.grad is not None])


def is_finite(norm: torch.Tensor) -> bool:
    """Whether a norm is a number; reads it from the device. One of sharded gradients is put together first."""
    whole = norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # DTensor's module imports numpy.
    return bool(whole.isfinite())


def nonfinite_error(
    model: nn.Module, parameters: Sequence[nn.Parameter], loss: torch.Tensor | None, *, step: int
) -> EngineError:
    """The error that names the step, the last loss, and where gradients are not finite."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    bad = [
        names.get(id(parameter), "a parameter outside of the model")
        for parameter in parameters
        if parameter.grad is not None and not bool(_values(parameter.grad).isfinite().all())
    ]
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    where = (
        f"gradients that are not finite, of {', '.join(bad[:_SHOWN])}{more}" if bad else "gradients too large to add"
    )
    return EngineError(
        f"at step {step}, with a loss of {'unknown size' if loss is None else f'{loss.item():.4g}'}: {where}",
        "a finite loss and finite gradients; the optimizer has not stepped",
        "look for log(0), sqrt(0) and divisions by 0 in the loss, lower the learning rate or clip gradients; "
        "or set nonfinite='skip'",
    )


def _values(gradient: torch.Tensor) -> torch.Tensor:
    return gradient._values() if gradient.is_sparse else gradient
