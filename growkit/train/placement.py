"""Moving what a batch holds to a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def moved(value: Any, device: torch.device | None) -> Any:
    """The same structure with its tensors on the device; the value itself for None."""
    if device is None:
        return value
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(item, device) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(moved(item, device) for item in value)
    return value.to(device) if callable(getattr(value, "to", None)) else value
