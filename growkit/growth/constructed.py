"""A model as its class builds it from a config: without memory for its parameters, and how it differs from another."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._python_dispatch import TorchDispatchMode

from growkit.discovery.untouched import untouched
from growkit.growth.fingerprint import read_number


@dataclass(frozen=True)
class Difference:
    """Something that a model has and that its class would build otherwise: a shape, a number, or a buffer's values.

    `kept`: what the model has, `built`: what its class builds; None if there is none.
    """

    name: str
    kept: Any
    built: Any

    def __str__(self) -> str:
        if self.kept is None or self.built is None:
            return f"{self.name} would be {'new' if self.kept is None else 'missing'}"
        if isinstance(self.kept, _Values):
            return f"{self.name} would be computed anew, to other values"
        return f"{self.name} would be {_text(self.built)}, and is {_text(self.kept)}"

    @property
    def sizes(self) -> list[tuple[float, float]]:
        """The numbers that differ, as (kept, built)."""
        if isinstance(self.kept, tuple) and isinstance(self.built, tuple):
            pairs = list(zip(self.kept, self.built, strict=False)) if len(self.kept) == len(self.built) else []
            return [(kept, built) for kept, built in pairs if kept != built]
        if isinstance(self.kept, int | float) and isinstance(self.built, int | float):
            return [(self.kept, self.built)]
        return []


class _Values:
    """A buffer that is not in the state of its module, so that only its constructor can give it."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor

    def __hash__(self) -> int:
        return hash(tuple(self.tensor.shape))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Values) or self.tensor.shape != other.tensor.shape:
            return False
        mine, theirs = self.tensor, other.tensor.to(self.tensor)
        return mine.is_meta or torch.equal(mine, theirs) or bool(((mine == theirs) | (mine != mine)).all())


Facts = Mapping[str, Any]
"""By name: the shape of each entry of the state, each float of a module, each int it computes with, other buffers."""


def construct(kind: type[nn.Module], read: Callable[[], Any]) -> nn.Module:
    """`kind(read())`, with buffers as it makes them and parameters on the meta device; random states stay.

    Neither warns nor logs: most of what is built is thrown away.
    """

    def on_meta(module: nn.Module, name: str, parameter: nn.Parameter) -> Any:
        return None if parameter.is_meta else nn.Parameter(parameter.to("meta"), parameter.requires_grad)

    with untouched(nn.Module()), warnings.catch_warnings(), _without_logs():
        warnings.simplefilter("ignore")
        handle = register_module_parameter_registration_hook(on_meta)
        try:
            with _WithoutValues():
                return kind(read())
        finally:
            handle.remove()


@contextmanager
def _without_logs() -> Iterator[None]:
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(level)


class _WithoutValues(TorchDispatchMode):
    """Does not fill tensors that have no values. Measured: a tiny GPT-2 is built in a third of the time."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func._schema.name.partition("::")[2] in _FILLS and args[0].is_meta:
            return args[0]
        return func(*args, **(kwargs or {}))


_FILLS = {"normal_", "uniform_", "fill_", "zero_", "copy_", "random_", "erfinv_", "mul_", "add_", "clamp_"}


def facts_of(model: nn.Module, numbers: Iterable[tuple[str, int | None]]) -> Facts:
    """What must be the same for two modules of one class to compute the same from the same state.

    `numbers`: the ints that the model computes with, as (path, index); others, which may be stale, do not count.
    """
    state = model.state_dict()
    found: dict[str, Any] = {name: tuple(t.shape) for name, t in state.items() if isinstance(t, Tensor)}
    found |= {name: _Values(buffer) for name, buffer in model.named_buffers() if name not in state}
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        found |= {prefix + name: value for name, value in vars(module).items() if type(value) is float}
    for path, index in numbers:
        value = read_number(model, path, index)
        if type(value) is int:
            found[path if index is None else f"{path}[{index}]"] = value
    return found


def differences(kept: Facts, built: Facts) -> list[Difference]:
    """In what a model is not as its class builds it."""
    names = {**kept, **built}
    pairs = [(name, kept.get(name), built.get(name)) for name in names]
    return [Difference(name, mine, theirs) for name, mine, theirs in pairs if mine != theirs]


def load(built: nn.Module, model: nn.Module) -> nn.Module:
    """`built` with the state of `model`, whose tensors it shares; other buffers get the dtype and device of `model`'s.

    Raises:
        RuntimeError: the states do not fit.
    """
    state = model.state_dict()
    built.load_state_dict(state, strict=True, assign=True)
    theirs = dict(model.named_buffers())
    for path, module in built.named_modules():
        for name, buffer in module._buffers.items():
            other = theirs.get(f"{path}.{name}" if path else name)
            if buffer is not None and other is not None:
                module._buffers[name] = buffer.to(other.device, other.dtype)
    modes = {path: module.training for path, module in model.named_modules()}
    for path, module in built.named_modules():
        module.training = modes.get(path, model.training)
    return built


def _text(value: Any) -> str:
    return "x".join(map(str, value)) or "scalar" if isinstance(value, tuple) else f"{value:.6g}"
