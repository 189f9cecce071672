"""What models and optimizers of several processes must have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import nn
from torch.optim import Optimizer


def described(model: nn.Module, optimizers: Mapping[str, Optimizer]) -> str:
    """Names, sizes and dtypes of a model's tensors, which of them are trained, and what the optimizers hold of them."""
    named = [*model.named_parameters(), *model.named_buffers()]
    tensors = ", ".join(f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in named)
    held = "; ".join(
        f"{name} ({type(optimizer).__name__}) holds {[len(group['params']) for group in optimizer.param_groups]} "
        f"with {[(key, *value.shape) for key, value in slots(optimizer)]}"
        for name, optimizer in optimizers.items()
    )
    return f"{trained(model)}; {tensors}; {held}"


def trained(model: nn.Module) -> str:
    """Which parameters need a gradient, as a short text."""
    flags = [parameter.requires_grad for parameter in model.parameters()]
    return f"{sum(flags)} of {len(flags)} parameters need a gradient ({hash(tuple(flags)):x})"


def slots(optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of an optimizer's state, in the order of its parameters."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    yield key, value
