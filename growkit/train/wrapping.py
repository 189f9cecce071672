"""What a function that wraps a model may return."""

from __future__ import annotations

from torch import nn

from growkit.errors import EngineError


def checked_wrapper(wrapped: object, model: nn.Module) -> nn.Module:
    """The module that a user's `wrap` returned for the model.

    Raises: EngineError for what is no module, or does not hold the model's own parameters.
    """
    if not isinstance(wrapped, nn.Module):
        raise EngineError(
            f"wrap returned {type(wrapped).__name__}",
            "the module to call in training",
            "return the wrapped model from wrap",
        )
    foreign = _ids(model) - _ids(wrapped)
    if foreign:
        raise EngineError(
            f"wrap returned a module without {len(foreign)} of the model's parameters",
            "a module that holds the model's own parameters, not copies of them",
            "wrap the model itself, without a deepcopy",
        )
    return wrapped


def _ids(module: nn.Module) -> set[int]:
    return {id(parameter) for parameter in module.parameters()}
