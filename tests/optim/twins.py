"""An oracle for state rules: the grown net trained beside the small one, its state made by its own gradients.

It knows the maps as dense matrices only and no rule. At each step the grown net is given the mapped weights of the
small one; both then see the same batch, and each optimizer accumulates what it accumulates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from growkit.axes.layouts import Layout
from growkit.maps.axis_map import AxisMap
from growkit.maps.lifting import DimMap, GrownAxis, lift
from growkit.maps.methods.fresh import METHOD as FRESH

SIZES = {"in": 3, "hidden": 4, "heads": 2, "out": 2}
LAYOUTS = {
    "first": "hidden:produces in:consumes",
    "first_bias": "hidden:produces",
    "gain": "hidden:gain",
    "gain_bias": "hidden:bias",
    "second": "(heads 2):produces hidden:consumes",
    "second_bias": "(heads 2):produces",
    "third": "out:produces (heads 2):consumes",
    "third_bias": "out:produces",
}
Maps = Mapping[str, AxisMap]
Optimize = Callable[[list[Tensor]], torch.optim.Optimizer]


def random_parameters(generator: torch.Generator) -> dict[str, Tensor]:
    shapes = {name: Layout.parse(text).shape(SIZES) for name, text in LAYOUTS.items()}
    return {n: torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for n, s in shapes.items()}


def forward(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    h = torch.tanh((x @ p["first"].T + p["first_bias"]) * p["gain"] + p["gain_bias"])
    return torch.tanh(h @ p["second"].T + p["second_bias"]) @ p["third"].T + p["third_bias"]


def mapped(p: Mapping[str, Tensor], maps: Maps) -> dict[str, Tensor]:
    """W' = M_out W N_in with dense matrices. New hidden units compute something that nothing reads."""

    def matrices(axis: str) -> tuple[Tensor, Tensor, Tensor]:
        expand, contract, copy = (torch.zeros(len(maps[axis].source), SIZES[axis], dtype=torch.float64) for _ in "mnc")
        for new, old in enumerate(maps[axis].source):
            if old >= 0:
                expand[new, old], contract[new, old] = maps[axis].expand[new], maps[axis].contract[new]
                copy[new, old] = 1.0
        return expand, contract.T, copy

    eye = torch.eye(2, dtype=torch.float64)
    m, n, copy = matrices("hidden")
    new = 1.0 - copy.sum(1)
    m_heads, n_heads = (torch.kron(matrix.contiguous(), eye) for matrix in matrices("heads")[:2])
    return {
        "first": m @ p["first"] + 0.3 * new[:, None],
        "first_bias": m @ p["first_bias"],
        "gain": copy @ p["gain"] + new,
        "gain_bias": m @ p["gain_bias"],
        "second": m_heads @ p["second"] @ n,
        "second_bias": m_heads @ p["second_bias"],
        "third": p["third"] @ n_heads,
        "third_bias": p["third_bias"].clone(),
    }


@dataclass
class Twins:
    """States after training, by parameter: of the small net, and of the grown one by its own gradients."""

    small: dict[str, dict[str, object]]
    grown: dict[str, dict[str, object]]
    group: dict[str, object]
    dims: dict[str, list[DimMap | None]]
    deviation: float
    """Largest difference between the outputs of the two nets over all steps."""


def train_twins(optimize: Optimize, maps: Maps, seed: int, steps: int = 8) -> Twins:
    generator = torch.Generator().manual_seed(seed)
    small = random_parameters(generator)
    grown = {name: value.detach().requires_grad_() for name, value in mapped(small, maps).items()}
    optimizers = [optimize(list(small.values())), optimize(list(grown.values()))]
    deviation = 0.0
    for _ in range(steps):
        with torch.no_grad():
            for name, value in mapped(small, maps).items():
                grown[name].copy_(value)
        x = torch.randn(6, SIZES["in"], generator=generator, dtype=torch.float64)
        target = torch.randn(6, SIZES["out"], generator=generator, dtype=torch.float64)
        outputs = [forward(p, x) for p in (small, grown)]
        deviation = max(deviation, float((outputs[0] - outputs[1]).detach().abs().max()))
        for output, optimizer in zip(outputs, optimizers, strict=True):
            optimizer.zero_grad()
            (output - target).square().mean().backward()
            optimizer.step()
    axes = {axis: GrownAxis(axis_map, FRESH) for axis, axis_map in maps.items()}
    return Twins(
        {name: dict(optimizers[0].state[p]) for name, p in small.items()},
        {name: dict(optimizers[1].state[p]) for name, p in grown.items()},
        optimizers[0].param_groups[0],
        {name: [lift(dim, SIZES, axes) for dim in Layout.parse(text).dims] for name, text in LAYOUTS.items()},
        deviation,
    )


def relative(value: object, expected: object) -> float:
    """max|difference| / max|expected|."""
    assert isinstance(value, Tensor)
    assert isinstance(expected, Tensor)
    assert value.shape == expected.shape
    return float((value - expected).abs().max() / expected.abs().max())


@st.composite
def copying_maps(draw: st.DrawFn, size: int) -> AxisMap:
    """Copies with unequal counts and unequal positive shares, in any order."""
    source = draw(st.permutations([*range(size), *draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4))]))
    weights = draw(st.lists(st.floats(0.2, 1.0), min_size=len(source), max_size=len(source)))
    totals = [sum(w for w, s in zip(weights, source, strict=True) if s == unit) for unit in range(size)]
    shares = tuple(w / totals[s] for w, s in zip(weights, source, strict=True))
    return AxisMap(size, tuple(source), (1.0,) * len(source), shares)


UNEQUAL: Maps = {
    "hidden": AxisMap(4, (0, 1, 2, 3, 0, 0, 2), (1.0,) * 7, (0.2, 1.0, 0.7, 1.0, 0.5, 0.3, 0.3)),
    "heads": AxisMap(2, (1, 0, 1), (1.0,) * 3, (0.4, 1.0, 0.6)),
}
PARTLY_NEW: Maps = {"hidden": AxisMap.copies(4, (0, 1, -1, 2, 3, 0)), "heads": AxisMap.identity(2)}
UNIFORM: Maps = {
    "hidden": AxisMap.copies(4, (0, 1, 2, 3, 0, 1, 2, 3)),
    "heads": AxisMap.copies(2, (0, 0, 1, 1)),
}

MAPS = st.fixed_dictionaries({axis: copying_maps(SIZES[axis]) for axis in ("hidden", "heads")})
