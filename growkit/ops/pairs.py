"""Growth of what lies between two layers that the caller names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Any

import torch
from torch import Tensor, nn

from growkit.discovery.untouched import untouched
from growkit.errors import InputsError
from growkit.growth.api import Optimizers, grow
from growkit.growth.report import Report

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
Follower = Sequence[Any]
"""The same layers of a copy: `(first, second)` or `(first, second, between)`."""

_LARGEST_SIDE = {1: 256, 2: 64, 3: 16}
"""Sides of the made inputs, by dims of space, beyond which a caller has to give some."""


class Chain(nn.Module):
    """`first`, the modules `between`, `second`; flattened before a linear layer that follows a convolution."""

    def __init__(self, first: nn.Module, second: nn.Module, between: Sequence[nn.Module] = ()):
        super().__init__()
        for module in (first, second, *_listed(between)):
            if not isinstance(module, nn.Module):
                raise InputsError(
                    f"a layer of type {type(module).__name__}", "torch.nn.Modules", "pass the layers themselves"
                )
        self.first, self.between, self.second = first, nn.ModuleList(between), second

    def forward(self, x: Tensor) -> Tensor:
        """`'batch in *space' -> 'batch out *space'`, or `'batch out'`."""
        x = self.first(x)
        for module in self.between:
            x = module(x)
        flat = isinstance(self.second, nn.Linear) and not isinstance(self.first, nn.Linear)
        return self.second(x.flatten(1) if flat else x)


def _listed(between: object) -> Iterable[object]:
    if isinstance(between, Iterable):
        return between
    raise InputsError(
        f"between={type(between).__name__}", "a list of all modules between the two layers", "write between=[...]"
    )


def widen_linear(
    first: nn.Linear,
    second: nn.Module,
    new_width: int | float,
    between: Sequence[nn.Module] = (),
    *,
    optimizers: Optimizers = None,
    followers: Iterable[Follower] = (),
    method: str | None = None,
    seed: int = 0,
    example_inputs: Tensor | None = None,
) -> Report:
    """Widens the units between two linear layers, in place: rows of `first`, columns of `second`.

    `new_width`: an int, the new number of units, or a float, a factor.

    first: `'units in'`; second: `'out units'`; `between`: all modules that the units pass (activations, norms,
    dropout), in order. `optimizers`, `method`, `seed` as in `growkit.grow`; `followers`: the same layers of a copy of
    the model, `(first, second)` or `(first, second, between)`. The result is checked on random inputs, or on
    `example_inputs` of `first`.

    Only these modules are looked at: a weight that is tied to another module has to grow by `growkit.grow`.

    Raises:
        GrowkitError: a module between forbids it, and what would do; everything is as before.
    """
    chain = Chain(first, second, between)
    _check_type("first", first, nn.Linear)
    if example_inputs is None:
        example_inputs = _random(first.weight, 4, first.in_features)
    return _widen(chain, "first.weight[0]", new_width, example_inputs, optimizers, followers, method, seed)


def widen_conv(
    first: Convolution,
    second: nn.Module,
    new_width: int | float,
    between: Sequence[nn.Module] = (),
    *,
    optimizers: Optimizers = None,
    followers: Iterable[Follower] = (),
    method: str | None = None,
    seed: int = 0,
    example_inputs: Tensor | None = None,
) -> Report:
    """Widens the channels between a convolution and what reads them, in place.

    `second`: a convolution; a depthwise one, whose outputs then grow (the old ones first); or a linear
    layer that reads the flattened `'(channels *space)'`. `between` as in `widen_linear`, pooling included. Inputs for
    the check are made, of the smallest sides that fit, unless `example_inputs` of `first` are given.

    Raises:
        GrowkitError: a module between forbids it, and what would do; everything is as before.
        InputsError: no inputs with equal sides fit: pass `example_inputs`.
    """
    chain = Chain(first, second, between)
    _check_type("first", first, Convolution)
    if example_inputs is None:
        example_inputs = _fitting(chain, first)
    channels = "first.weight[1]" if first.transposed else "first.weight[0]"
    return _widen(chain, channels, new_width, example_inputs, optimizers, followers, method, seed)


def _check_type(argument: str, layer: object, kind: type | UnionType) -> None:
    if not isinstance(layer, kind):
        raise InputsError(
            f"as {argument}, a {type(layer).__name__}",
            "a Linear in widen_linear, a convolution in widen_conv",
            "use the other one, or growkit.grow for layers of other types",
        )


def _widen(
    chain: Chain,
    axis: str,
    new_width: int | float,
    example_inputs: Tensor,
    optimizers: Optimizers,
    followers: Iterable[Follower],
    method: str | None,
    seed: int,
) -> Report:
    return grow(
        chain,
        widen={axis: new_width},
        optimizers=optimizers,
        followers=[Chain(*follower) for follower in followers],
        method=method,
        seed=seed,
        example_inputs=example_inputs,
    )


def _fitting(chain: Chain, first: Convolution) -> Tensor:
    """The smallest inputs with equal sides that pass the chain."""
    dims = first.weight.dim() - 2
    for inputs in _sides(first, dims):
        try:
            with untouched(chain), torch.no_grad():
                chain(inputs)
        except (RuntimeError, ValueError):  # too small for a kernel, or not what the linear layer reads
            continue
        return inputs
    raise InputsError(
        f"layers that take no inputs with equal sides up to {_LARGEST_SIDE[dims]}",
        "layers that fit each other",
        "pass example_inputs=, what `first` is called with, or check the layers between",
    )


def _sides(first: Convolution, dims: int) -> Iterator[Tensor]:
    for side in range(1, _LARGEST_SIDE[dims] + 1):
        yield _random(first.weight, 2, first.in_channels, *[side] * dims)


def _random(like: Tensor, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(like)
