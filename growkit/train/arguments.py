"""Calling a user's function with the arguments that its signature names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from growkit.errors import EngineError, nearest

OTHER_WORDS = {
    "hiddens": "carry",
    "hidden": "carry",
    "optimizer_idx": "optimizer",
    "opt_idx": "optimizer",
    "batch_idx": "step",
    "global_step": "step",
    "global_train_step": "step",
    "dataloader_iter": "data_iter",
    "epoch_continuous": "epoch",
}
"""Words of other trainers (Lightning, RETURNN) -> ours."""

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class SignatureCall:
    """A function of the user's, called with those of the offered values that its signature names.

    `**kwargs` in the signature receives everything that is offered. A parameter with a default value
    is filled if its name is offered and left alone otherwise.

    Raises: EngineError, when constructed, for a parameter that nothing can fill.
    """

    def __init__(self, function: Callable[..., object], offered: Collection[str], what: str):
        self._function = function
        title = f"{what} {getattr(function, '__name__', type(function).__name__)!r}"
        allowed = f"the names {', '.join(offered)}; other parameters with a default value; **kwargs"
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise EngineError(f"{title}: its signature cannot be read", allowed, "wrap it in a def") from error
        self.required = frozenset(p.name for p in parameters if p.default is p.empty and p.kind not in _VARIADIC)
        """Names of the parameters without a default value."""
        for parameter in parameters:
            if parameter.name in self.required:
                _check_fillable(parameter, offered, title, allowed)
        self._everything = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self.named = frozenset(p.name for p in parameters if p.kind in _BY_NAME and p.name in offered)
        """Names that are offered and that the signature names."""

    def takes(self, name: str) -> bool:
        """Whether the function receives `name`."""
        return self._everything or name in self.named

    def __call__(self, offered: Mapping[str, object]) -> object:
        """The function's result; `offered` holds the values, by name."""
        if self._everything:
            return self._function(**offered)
        return self._function(**{name: offered[name] for name in self.named if name in offered})


def check_kind(name: str, given: object, kind: Any, allowed: str, advice: str) -> None:
    """Refuses an argument that is neither None nor of this kind, a class or several.

    Raises: EngineError.
    """
    if given is not None and not isinstance(given, kind):
        raise EngineError(f"{name} of type {type(given).__name__}", f"{allowed}, or None", advice)


def check_takes_one(function: object, what: str, taken: str) -> None:
    """Refuses what cannot be called with one argument, `taken`, as in "the model".

    Raises: EngineError.
    """
    allowed, advice = f"a function of one argument, {taken}", f"write it as lambda {taken.rpartition(' ')[2]}: ..."
    if not callable(function):
        raise EngineError(f"a {type(function).__name__} as {what}", allowed, advice)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some of those written in C do not tell
        return
    try:
        signature.bind(None)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise EngineError(f"{what} {name}{signature}: {error}", allowed, advice) from error


def _check_fillable(parameter: inspect.Parameter, offered: Collection[str], title: str, allowed: str) -> None:
    name = parameter.name
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise EngineError(f"{title} takes {name!r} by position only", allowed, "remove the '/' from its signature")
    if name not in offered:
        close = [OTHER_WORDS[name]] if OTHER_WORDS.get(name) in offered else nearest(name, offered)
        raise EngineError(
            f"{title} asks for {name!r}",
            allowed,
            f"rename the parameter to {close[0]!r}"
            if close
            else f"give {name!r} a default value, rename it, or "
            f"pass a service of this name: Engine(services={{{name!r}: ...}})",
        )
