"""A run of a model in double precision, without a second copy of its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

_LOWER = (torch.float32, torch.float16, torch.bfloat16)


class Float64(TorchDispatchMode):
    """Inside, every op computes in float64: inputs are widened as they are read, casts to lower floats do nothing.

    Weights are rounded as they are stored, so a float32 model runs with exactly its own weights and no rounding
    of its own. For runs without gradients and without in-place writes to parameters, buffers or inputs.
    """

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        wide_args, wide_kwargs = tree_map_only(Tensor, _widen, (args, dict(kwargs or {})))
        if wide_kwargs.get("dtype") in _LOWER:
            wide_kwargs["dtype"] = torch.float64
        return tree_map_only(Tensor, _widen, func(*wide_args, **wide_kwargs))


def _widen(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.dtype in _LOWER else tensor
