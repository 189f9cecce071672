"""Ways to run a model for a comparison: in train mode too, in float64, with weights that are off by their rounding."""

from __future__ import annotations

import random
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from growkit.discovery.inputs import CallModel, run_model
from growkit.discovery.untouched import untouched, unwrap
from growkit.errors import InputsError
from growkit.growth.float64 import float64
from growkit.growth.outputs import Outputs, floats_in, relative


@dataclass(frozen=True)
class Way:
    """How a model is run: in float64 or its own dtype, in train or in eval mode."""

    float64: bool = False
    training: bool = False

    def __str__(self) -> str:
        return ("in train mode" if self.training else "in eval mode") + (", in float64" if self.float64 else "")


AS_IT_IS = Way()
"""In eval mode, in the dtype that the model has."""


@dataclass(frozen=True)
class Runs:
    """Runs of one model on one set of inputs, without gradients and without dropout, which leave no trace in it."""

    model: nn.Module
    inputs: Any
    call: CallModel | None

    def __call__(self, way: Way, *, shaken: Collection[str] = (), signs: int = 0, draw: int = 0) -> Outputs:
        """What the model gives.

        All runs draw the same random numbers, unless their `draw` differs. Tensors named `shaken` are read with each
        entry changed by one in the last place, up or down as `signs` seeds it.

        Raises:
            InputsError: the model raises; its error is the cause.
        """
        model = unwrap(self.model)
        flags = [(module, module.training) for module in model.modules()]
        values = {id(t): _neighbour(t, signs) for name, t in _tensors(model) if name in set(shaken)}
        with ExitStack() as stack:
            stack.enter_context(untouched(model))
            stack.enter_context(torch.no_grad())
            if way.training:
                stack.enter_context(_quiet())
                _train(model, flags)
            _advance(model, draw)
            if way.float64:
                stack.enter_context(float64())
            stack.enter_context(WithoutDropout())
            if values:
                stack.enter_context(_Shaken(values))
            try:
                return [t.clone() for t in floats_in(run_model(model, self.inputs, self.call))]
            except InputsError as error:
                if not way.training:
                    raise
                raise InputsError(
                    f"{error.given}, in train mode", "inputs that the model accepts in train mode", error.next_step
                ) from error.__cause__

    def are_random(self, way: Way, tolerance: float) -> bool:
        """Whether the model gives something else when it draws other random numbers, or when it is just run again."""
        first = self(way)
        for other in (self(way, draw=1), self(way, draw=2)):
            alike = [t.shape for t in first] == [t.shape for t in other]
            if not alike or any(relative(a, b)[1] > tolerance for a, b in zip(first, other, strict=True)):
                return True
        return False


def _tensors(model: nn.Module) -> list[tuple[str, Tensor]]:
    return [(n, t) for n, t in (*model.named_parameters(), *model.named_buffers()) if t.is_floating_point()]


def _train(model: nn.Module, flags: Sequence[tuple[nn.Module, bool]]) -> None:
    """Train mode, but for parts that are in eval mode within a model in train mode: frozen norms stay frozen."""
    (_, root), *inner = flags
    if root and (not inner or any(flag for _, flag in inner)):
        for module, flag in flags:
            module.training = flag
    else:
        model.train()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings: of checkpointing, for instance, that it is of no use without gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _advance(model: nn.Module, draw: int) -> None:
    for device in sorted({"cpu", *(str(p.device) for p in model.parameters() if p.device.type != "meta")}):
        if draw:
            torch.rand(draw, device=device)
    for _ in range(draw):
        random.random()


class WithoutDropout(TorchDispatchMode):
    """Dropout gives its input, in train mode too; other random numbers are drawn as ever.

    Noise of dropout is 0 or 1 with probability p of 1, and divided by p: here it is p. It is drawn that way wherever
    whole samples or channels are dropped too.
    """

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if func is torch.ops.aten.bernoulli_.float:
            return args[0].fill_(args[1] if len(args) > 1 else given.get("p", 0.5))
        if func is torch.ops.aten.native_dropout.default:
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        values = list(args)
        for position, argument in enumerate(func._schema.arguments):  # of attention and recurrent kernels
            if argument.name in ("dropout", "dropout_p"):
                if position < len(values):
                    values[position] = 0.0
                elif argument.name in given:
                    given[argument.name] = 0.0
        return func(*values, **given)


class _Shaken(TorchDispatchMode):
    """Reads other values in place of some tensors, by identity."""

    def __init__(self, values: Mapping[int, Tensor]):
        super().__init__()
        self._values = values

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        args, given = tree_map_only(Tensor, lambda t: self._values.get(id(t), t), (args, dict(kwargs or {})))
        return func(*args, **given)


def _neighbour(weight: Tensor, draw: int) -> Tensor:
    generator = torch.Generator().manual_seed(draw)
    signs = torch.randint(0, 2, weight.shape, generator=generator).to(weight.device) * 2 - 1
    return (weight.detach().double() * (1 + torch.finfo(weight.dtype).eps * signs)).to(weight.dtype)
