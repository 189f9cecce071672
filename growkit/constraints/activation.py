"""Elementwise functions, gates and sums.

A copy passes any elementwise function as it is, f(h)[copy] = f(h[copy]); a scaled one does not. New units that
nothing reads may do what they like; units padded with zeros must stay zero, and must not stay so for ever.
"""

from __future__ import annotations

from growkit.constraints.constraint import Constraint, Refusal, anything
from growkit.maps.axis_map import NEW, AxisMap


def unscaled(axis_map: AxisMap) -> Refusal | None:
    """Admits copies without scale and new units."""
    scaled = any(u != NEW and m != 1.0 for u, m in zip(axis_map.source, axis_map.expand, strict=True))
    return (
        Refusal("a nonlinear function lies on it, which a scaled unit does not pass", "unscaled copies, new units")
        if scaled
        else None
    )


_ALIVE_AT_ZERO = frozenset(
    {
        "gelu",
        "silu",
        "tanh",
        "elu",
        "celu",
        "selu",
        "softsign",
        "mish",
        "hardtanh",
        "hardswish",
        "leaky_relu",
        "erf",
        "sin",
        "asin",
        "atan",
        "expm1",
        "log1p",
    }
)
"""Functions with f(0) = 0 and f'(0) != 0."""


def pointwise(function: str) -> Constraint:
    """The constraint of a passage `pointwise:<function>`."""
    return unscaled if function in _ALIVE_AT_ZERO else unscaled_units


def unscaled_units(axis_map: AxisMap) -> Refusal | None:
    """Admits copies without scale, and new units that nothing reads."""
    if axis_map.has_new and axis_map.padded:
        return Refusal(
            "units padded with zeros would not stay zero on their way, or never leave it", "copies, new units"
        )
    return unscaled(axis_map)


CONSTRAINTS: dict[str, Constraint] = {
    # both factors carry the same map: a scale would be squared, and two zeros have no gradient
    "gate": unscaled_units,
    "residual": anything,
}
