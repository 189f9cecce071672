"""What a train step hands from one split of a batch to the next."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from growkit.errors import EngineError
from growkit.train.containers import children, holds, rebuilt


def detached(carry: Any) -> Any:
    """The same values cut off from their graph, so that a backward pass ends here.

    carry: tensors and PackedSequences in dicts, lists, tuples, named tuples and dataclasses, nested; objects
        with a method `detach()` that returns them without their graph; anything that holds no tensor.

    What holds no tensor stays the very same object; tensors share their memory with those given.

    Raises: EngineError for an object that holds tensors where they cannot be found.
    """
    return _detached(carry, "carry")


def _detached(value: Any, path: str) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, PackedSequence):
        return value._replace(data=value.data.detach())
    inner = children(value)
    if inner is not None:
        return rebuilt(value, [_detached(item, f"{path}.{name}") for name, item in inner])
    if callable(getattr(value, "detach", None)) and not isinstance(value, type):
        made = value.detach()
        if made is None:
            raise EngineError(
                f"detach() of {path} ({type(value).__name__}) returned None",
                "the object without its graph",
                "return it from detach()",
            )
        return made
    if holds(value, (torch.Tensor,)):
        raise EngineError(
            f"{path} is a {type(value).__name__} with tensors inside it",
            "tensors in dicts, lists, tuples and dataclasses, or objects with a method detach()",
            "return its tensors in a dict, or give its class a method detach() that returns it without its graph",
        )
    return value
