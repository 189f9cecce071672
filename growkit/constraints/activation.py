"""Elementwise functions, gates and sums.

A copy passes any elementwise function as it is, f(h)[copy] = f(h[copy]); a scaled one does not. New units
may do what they like, since nothing reads them yet.
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


POINTWISE: Constraint = unscaled
"""For every passage `pointwise:<function>`."""

CONSTRAINTS: dict[str, Constraint] = {
    "gate": unscaled,  # both factors carry the same map: a scale would be squared
    "residual": anything,
}
