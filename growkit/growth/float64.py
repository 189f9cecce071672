"""A run of a model in double precision, without a second copy of its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

_LOWER = (torch.float32, torch.float16, torch.bfloat16)


@contextmanager
def float64() -> Iterator[None]:
    """Inside, every op computes in float64: inputs are widened as they are read, casts to lower floats do nothing.

    Weights are rounded as they are stored, so a float32 model runs with exactly its own weights and no rounding
    of its own. For runs without gradients and without in-place writes to parameters, buffers or inputs.
    """
    with _Functions(), _Ops():
        yield


class _Functions(TorchFunctionMode):
    """Widens the arguments of torch functions, some of which compare dtypes before any op runs."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _widened(func, args, kwargs)


class _Ops(TorchDispatchMode):
    """Widens what ops make: constants, and results of casts."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return tree_map_only(Tensor, _widen, _widened(func, args, kwargs))


def _widened(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Any:
    wide_args, wide_kwargs = tree_map_only(Tensor, _widen, (args, dict(kwargs or {})))
    if wide_kwargs.get("dtype") in _LOWER:
        wide_kwargs["dtype"] = torch.float64
    return func(*wide_args, **wide_kwargs)


def _widen(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.dtype in _LOWER else tensor
