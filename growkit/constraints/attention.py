"""Attention: heads grow whole, what queries and keys are contracted over does not."""

from __future__ import annotations

from math import isclose

from growkit.constraints.activation import unscaled_units
from growkit.constraints.constraint import Constraint, Refusal, never
from growkit.maps.axis_map import AxisMap


def silent_units(axis_map: AxisMap) -> Refusal | None:
    """Admits maps that change the sum of products by one factor, and new units, which are zero in one of the factors.

    Source: Gesmundo and Maile 2023 (arXiv 2308.06103), section 3.4, with zero queries in place of zero keys.
    """
    if axis_map.padded or axis_map.averaged:
        return Refusal("two activations are contracted over it, of which both would be zero for ever", "new units")
    if not axis_map.self_dual:
        return Refusal(
            "two activations are contracted over it, to which every unit must add in equal measure",
            f"new units, or copies to a multiple of {axis_map.old_size}",
        )
    return None


def silent_part(axis_map: AxisMap) -> Refusal | None:
    """As `silent_units`, of a part of what is summed over: the others do not grow, so no factor can be taken out."""
    if refusal := silent_units(axis_map):
        return refusal
    if axis_map.energy is None or not isclose(axis_map.energy, 1.0, rel_tol=1e-12):
        return Refusal(
            "products over other axes are added to those over its units, which are not to add more", "new units"
        )
    return None


CONSTRAINTS: dict[str, Constraint] = {
    # each head attends on its own, so copies and new heads do not disturb the others; of a head that is zero,
    # queries and keys would have no gradient for ever, each being the other's factor
    "per_head": unscaled_units,
    "contracted_queries": silent_units,
    "contracted_part": silent_part,
    "contracted_activations": never("two activations are contracted over it, so copies would count twice in the sum"),
    "contracted_alike": never(
        "two activations are contracted over it that the same entries of a parameter make, so that new units cannot be "
        "zero in one of the two alone",
        "let a parameter of its own make each of the two",
    ),
    "contracted_tempered": never(
        "two activations are contracted over it and over others, by a kernel whose temperature is the size of all",
        "pass a scale to the kernel, a float that the module keeps",
    ),
    "softmax": never("a softmax runs over it, so every new unit would take from the old ones"),
    "size_as_number": never(
        "its size enters the computation as a number, such as the temperature 1/sqrt(size)",
        "let the module keep that number, instead of computing it from the size",
    ),
}
