"""Hypothesis strategies: models with inputs, and growths that their axes admit.

Models are in float64, with parameters and buffers away from their initial values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from growkit.axes.table import AxisTable
from growkit.constraints.table import refusals
from growkit.errors import DepthError
from growkit.growth.depth import Insert, depth_steps
from growkit.maps.methods.table import METHODS
from growkit.nn.classifier import ConformerClassifier
from growkit.nn.encoder import ConformerEncoder
from growkit.testing.randomise import randomise


@dataclass(frozen=True)
class Case:
    """A model and inputs it accepts."""

    model: nn.Module
    inputs: Any


@dataclass(frozen=True)
class Widening:
    """Arguments of `growkit.make_plan`."""

    widen: dict[str, int]
    method: dict[str, str]


class _Residual(nn.Module):
    def __init__(self, branch: nn.Module):
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


_ACTIVATIONS: tuple[Callable[[], nn.Module], ...] = (nn.ReLU, nn.GELU, nn.Tanh, nn.Sigmoid, nn.SiLU)
_NORMS: tuple[Callable[[int], nn.Module], ...] = (nn.LayerNorm, nn.BatchNorm1d)
SIZES = st.integers(2, 6)
"""Sizes of generated models."""
_SEEDS = st.integers(0, 2**31)


@st.composite
def mlps(draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> Case:
    """Perceptrons `'batch input -> batch output'`: activations, norms, residual branches, with and without biases."""
    width = draw(sizes)
    features = draw(sizes)
    layers: list[nn.Module] = [nn.Linear(features, width, bias=draw(st.booleans()))]
    for _ in range(draw(st.integers(1, 3))):
        activation = draw(st.sampled_from(_ACTIVATIONS))
        norm = draw(st.sampled_from([None, *_NORMS]))
        hidden, bias, kind = draw(sizes), draw(st.booleans()), draw(st.sampled_from(("layer", "branch", "blocks")))

        def normed() -> list[nn.Module]:
            return [norm(width)] if norm else []  # noqa: B023, called in the same turn

        def branch() -> nn.Module:
            layers = [nn.Linear(width, hidden, bias=bias), activation(), nn.Linear(hidden, width, bias=bias)]  # noqa: B023
            return _Residual(nn.Sequential(*normed(), *layers))

        if kind == "layer":
            layers += [*normed(), activation(), nn.Linear(width, hidden, bias=bias)]
            width = hidden
        else:
            layers.append(branch() if kind == "branch" else nn.Sequential(branch(), branch()))
    layers.append(nn.Linear(width, draw(sizes)))
    seed = draw(_SEEDS)
    inputs = torch.randn(3, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Case(randomise(nn.Sequential(*layers).double(), seed), inputs)


@st.composite
def conformers(draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> Case:
    """Our Conformer classifiers with padded inputs, `'batch time input', 'batch' -> 'batch class'`."""
    features, time = draw(sizes), draw(sizes)
    encoder = ConformerEncoder(
        input_dim=features,
        model_dim=draw(sizes),
        ffn_dim=draw(sizes),
        num_heads=draw(sizes),
        num_layers=draw(st.integers(1, 2)),
        kernel_size=3,
        head_dim=draw(sizes),
        conv_channels=draw(sizes),
        position_dim=draw(sizes),
    )
    model = ConformerClassifier(encoder, draw(sizes))
    seed = draw(_SEEDS)
    x = torch.randn(2, time, features, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Case(randomise(model.double(), seed), (x, torch.tensor([time, time - 1])))


@st.composite
def widenings(draw: st.DrawFn, table: AxisTable, most: int = 4) -> Widening:
    """Up to `most` axes of a model that can grow, each with a size and a method that it admits."""
    choices: dict[str, list[tuple[int, str]]] = {}
    for axis in table:
        sizes = (axis.size + 1, 2 * axis.size, 2 * axis.size + 1, 3 * axis.size)
        choices[axis.name] = [
            (size, name)
            for name, method in METHODS.items()
            for size in sizes
            if not axis.locked and not any(refusals(axis, method.make(axis.size, size, "")))
        ]
    growable = [name for name, choice in choices.items() if choice]
    names = draw(st.lists(st.sampled_from(growable), min_size=1, max_size=most, unique=True))
    drawn = {name: draw(st.sampled_from(choices[name])) for name in names}
    return Widening({name: size for name, (size, _) in drawn.items()}, {name: how for name, (_, how) in drawn.items()})


@st.composite
def deepenings(draw: st.DrawFn, table: AxisTable, most: int = 2) -> dict[str, Insert]:
    """For some of the containers of a model, up to `most` places for blocks that start as the identity."""
    found: dict[str, Insert] = {}
    for container in dict.fromkeys(block.container for block in table.blocks):
        old = sum(block.container == container for block in table.blocks)
        positions = [p for p in range(old + 1) if _admitted(table, found | {container: Insert([p])})]
        places = draw(st.lists(st.sampled_from(positions), max_size=most)) if positions else []
        if places:
            found[container] = Insert(places)
    return found


def _admitted(table: AxisTable, deepen: dict[str, Insert]) -> bool:
    try:
        depth_steps(table, deepen)
    except DepthError:
        return False
    return True
