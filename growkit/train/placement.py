"""Moving what a batch holds to a device."""

from __future__ import annotations

from typing import Any

import torch

from growkit.train.containers import children, rebuilt


def moved(value: Any, device: torch.device | None) -> Any:
    """The same structure with its tensors on the device, and with what else has a method `to`; the value for None."""
    if device is None:
        return value
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    inner = children(value)
    if inner is not None:
        return rebuilt(value, [moved(item, device) for _, item in inner])
    return value.to(device) if callable(getattr(value, "to", None)) else value
