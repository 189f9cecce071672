"""Computing in less than float32: autocast, and the scale of losses that fp16 needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from growkit.errors import EngineError

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def device_type(model: nn.Module) -> str:
    """Where the model computes: "cpu", "cuda" and so on."""
    return next((parameter.device.type for parameter in model.parameters()), "cpu")


def autocast(model: nn.Module, precision: str | None) -> AbstractContextManager[object]:
    """Where forward passes run."""
    return nullcontext() if precision is None else torch.autocast(device_type(model), DTYPES[precision])


def outside_autocast(model: nn.Module, precision: str | None) -> AbstractContextManager[object]:
    """Where backward passes and optimizer steps run that a train step asks for inside `autocast`."""
    return nullcontext() if precision is None else torch.autocast(device_type(model), enabled=False)


class LossScaling:
    """The loss scale of a run under fp16: one for all optimizers, kept over changes of the model.

    Each optimizer's gradients are unscaled once before its step; the scale is updated once per unit of work in
    which any were, whatever became of the steps.
    """

    def __init__(self, scaler: GradScaler):
        self.scaler = scaler
        self._losses: list[torch.Tensor] = []
        self._unscaled: set[str] = set()
        self._updates = 0
        self._scaled_at: dict[str, int] = {}  # Optimizer -> updates of the scale before its gradients began.

    def scaled(self, loss: torch.Tensor, optimizers: Iterable[str]) -> torch.Tensor:
        """The loss times the scale; its gradients may reach any of the optimizers."""
        self._losses.append(loss.detach())
        for name in optimizers:
            self._scaled_at.setdefault(name, self._updates)
        return self.scaler.scale(loss)

    def forget(self, *names: str) -> None:
        """The gradients of these optimizers are gone."""
        for name in names:
            self._scaled_at.pop(name, None)

    def unscale(self, name: str, optimizer: Optimizer) -> None:
        """Divides the optimizer's gradients by the scale.

        Raises: EngineError where they were made with another scale.
        """
        if name in self._unscaled:
            self.close()
        if self._scaled_at.get(name, self._updates) != self._updates:
            raise EngineError(
                f"gradients of the optimizer {name!r} from before the loss scale was updated",
                "with fp16, gradients that are all made after the last step of any optimizer in an earlier unit",
                f"call flow.zero_grad({name!r}) before the backward pass, or use precision='bf16'",
            )
        self.scaler.unscale_(optimizer)
        self._unscaled.add(name)

    @property
    def loss_was_finite(self) -> bool:
        """Whether all losses since the last update were; reads them from the device."""
        return all(bool(loss.isfinite()) for loss in self._losses)

    def close(self) -> None:
        """Ends a unit of work: updates the scale if gradients were unscaled."""
        if self._unscaled:
            self.scaler.update()
            self._updates += 1
            self._unscaled.clear()
            self._losses.clear()

    def state_dict(self) -> dict[str, Any]:
        """The scale, for how long no gradient overflowed, and whether the losses of an open window were finite."""
        return {"scaler": self.scaler.state_dict(), "loss_was_finite": self.loss_was_finite}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state_dict` returned."""
        self.scaler.load_state_dict(state["scaler"])
        self._losses = [] if state["loss_was_finite"] else [torch.tensor(torch.nan)]


def loss_scaling(model: nn.Module, scaler: GradScaler | None) -> LossScaling:
    """The loss scaling of a model, with a scaler of the user's own or a new one.

    Raises: EngineError for weights that are float16 themselves.
    """
    half = [name for name, parameter in model.named_parameters() if parameter.dtype == torch.float16]
    if half:
        raise EngineError(
            f"precision='fp16' for {len(half)} weights in float16, such as {half[0]}",
            "weights in float32: autocast casts them where that is safe",
            "keep the model in float32",
        )
    return LossScaling(scaler or GradScaler(device_type(model)))
