"""Example inputs, and calling a model with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from growkit.errors import InputsError

CallModel = Callable[[nn.Module, Any], Any]
"""`call(model, inputs)`: runs the model where `forward` is not the entry."""

_CLOSED = (str, bytes, int, float, type(None), type, torch.dtype, nn.Module, ModuleType)
"""What holds no tensors of a result; a Python module would lead to everything that is imported."""


class Inputs:
    """Positional and keyword inputs of a model: `Inputs(x, lengths, mask=m)`."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.args, self.kwargs = args, kwargs

    def __str__(self) -> str:
        shown = [_show(x) for x in self.args] + [f"{name}={_show(x)}" for name, x in self.kwargs.items()]
        return "(" + ", ".join(shown) + ")"


def as_inputs(inputs: Any) -> Inputs:
    """A tensor, a tuple of positional inputs, a mapping of keyword inputs, or `Inputs`, as `Inputs`.

    Raises:
        InputsError: anything else.
    """
    match inputs:
        case Inputs():
            return inputs
        case Tensor():
            return Inputs(inputs)
        case tuple():
            return Inputs(*inputs)
        case Mapping():
            return Inputs(**inputs)
    raise InputsError(
        f"example inputs of type {type(inputs).__name__}",
        "a tensor, a tuple of positional inputs, a mapping of keyword inputs, or growkit.Inputs(...)",
        "wrap them in growkit.Inputs, or pass call=lambda model, inputs: ...",
    )


def run_model(model: nn.Module, inputs: Any, call: CallModel | None) -> Any:
    """The result of the model, by `call` if there is one.

    Raises:
        InputsError: the model raises on these inputs; its error is the cause.
    """
    given = inputs if call else as_inputs(inputs)
    try:
        return call(model, inputs) if call else model(*given.args, **given.kwargs)
    except Exception as error:
        raise InputsError(
            f"{type(model).__name__} raises {type(error).__name__} on the example inputs {_show(given)}: {error}",
            "inputs that the model accepts in eval mode",
            "pass inputs as in training, or call=lambda model, inputs: ... where forward is not the entry",
        ) from error


def _show(value: Any) -> str:
    match value:
        case Tensor():
            dtype = str(value.dtype).removeprefix("torch.")
            return f"{dtype}{list(value.shape)}"
        case Inputs():
            return str(value)
        case tuple() | list():
            return "(" + ", ".join(map(_show, value)) + ")"
        case Mapping():
            return "{" + ", ".join(f"{name}: {_show(x)}" for name, x in value.items()) + "}"
        case str() | int() | float() | None:
            return repr(value)
    return type(value).__name__


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a nested structure of tuples, lists, mappings, `Inputs` and plain objects, each once."""
    return list({id(tensor): tensor for tensor in leaves_in(value)}.values())


def leaves_in(value: Any) -> list[Tensor]:
    """The tensors of a nested structure, each as often as it occurs; what contains itself is opened once."""
    found: list[Tensor] = []
    seen: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        x = waiting.pop()
        if isinstance(x, Tensor):
            found.append(x)
        elif not isinstance(x, _CLOSED) and id(x) not in seen:
            seen[id(x)] = x  # kept, so that no other object gets its id
            waiting += _children(x)[::-1]
    return found


def _children(x: Any) -> list[Any]:
    if isinstance(x, (tuple, list, set)):
        return list(x)
    if isinstance(x, (dict, Mapping)):
        return list(x.values())
    slots = [name for kind in type(x).__mro__ for name in _names(vars(kind).get("__slots__", ()))]
    return [*getattr(x, "__dict__", {}).values(), *(getattr(x, name, None) for name in slots if name != "__dict__")]


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
