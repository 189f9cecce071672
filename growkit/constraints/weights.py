"""Parameters that are computed from other parameters before activations meet them."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose

from growkit.constraints.activation import alive_at_zero, finite, unscaled_units
from growkit.constraints.constraint import Constraint, Refusal, anything
from growkit.maps.axis_map import NEW, AxisMap

CONSTRAINTS: dict[str, Constraint] = {
    # a product of the parameter with itself, or with what is computed from it
    "two_roles": unscaled_units,
}


def no_new_units(axis_map: AxisMap) -> Refusal | None:
    """Admits copies, with any scales."""
    if not axis_map.has_new:
        return None
    return Refusal("a parameter passes a function that may be infinite for new values", "copies")


def gain_through(function: str) -> Constraint:
    """The constraint of a passage `gain:<function>`: a gain is the function of a parameter, copied with its units."""
    return anything if finite(function) else no_new_units


def consumed_through(function: str) -> Constraint:
    """The constraint of a passage `consumed:<function>`: what is contracted is the function of a parameter.

    Copies would have to share the value of the function. Columns of new units are zero at first, and learn, if the
    function and not its derivative is zero there.
    """

    def refuse(axis_map: AxisMap) -> Refusal | None:
        old = [n for unit, n in zip(axis_map.source, axis_map.contract, strict=True) if unit != NEW]
        if alive_at_zero(function) and not axis_map.padded and all(n == 1.0 for n in old):
            return None
        return Refusal(
            f"a parameter passes {function} before it is contracted, and shares of copies do not pass it",
            "new units" if alive_at_zero(function) else "",
        )

    return refuse


def norm_of_weight(counts: str) -> Constraint:
    """The constraint of a passage `weight_norm <produced> <consumed> <copied>`.

    A parameter is divided by its Euclidean norm over dims in which the axis occurs so often, in these roles. Exact if
    the norm stays: the squares of the scales of all copies multiply to 1, and new entries are zero. Its gradient has a
    part along the parameter itself, so gradients must move like values, up to one factor.

    Source: Salimans and Kingma 2016, Weight Normalization (arXiv 1602.07868), eq. 3.
    """
    return _norm(counts, scaled=False)


def norm_of_scaled_weight(counts: str) -> Constraint:
    """The constraint of a passage `scaled_weight_norm ...`: behind the norm a parameter takes the factor of the norm.

    So the norm may change, by a factor that is the same for all weights; it is a correction of the axis.
    """
    return _norm(counts, scaled=True)


def _norm(counts: str, scaled: bool) -> Constraint:
    produced, consumed, copied = map(int, counts.split())

    def refuse(axis_map: AxisMap) -> Refusal | None:
        factor = _norm_factor(axis_map, produced, consumed, copied)
        if factor is not None and (scaled or isclose(factor, 1.0, rel_tol=1e-12)):
            return None
        only_read = not produced and not copied
        copies = scaled or produced + copied == consumed
        return Refusal(
            "a parameter is divided by a norm over it, which would change",
            "new units" if only_read else f"equally many copies of {axis_map.old_size} units" if copies else "",
        )

    return refuse


def _norm_factor(axis_map: AxisMap, produced: int, consumed: int, copied: int) -> float | None:
    """The factor of the squared norm, None if it is not one for all weights."""
    zero = (not axis_map.padded and not produced and not copied) or (axis_map.padded and not consumed and not copied)
    if axis_map.has_new and not zero:
        return None
    sums = [[0.0, 0.0, 0.0] for _ in range(axis_map.old_size)]
    ratios, products = [], []
    for unit, m, n in zip(axis_map.source, axis_map.expand, axis_map.contract, strict=True):
        if unit != NEW:
            sums[unit] = [total + square for total, square in zip(sums[unit], (m * m, n * n, 1.0), strict=True)]
            ratios.append(m / n if n else 0.0)
            products.append(m * n)
    used = [place for place, count in enumerate((produced, consumed, copied)) if count]
    alike = [ratios, *([products] if copied else []), *([total[place] for total in sums] for place in used)]
    if any(not isclose(number, numbers[0], rel_tol=1e-12) for numbers in alike for number in numbers):
        return None
    return sums[0][0] ** produced * sums[0][1] ** consumed * sums[0][2] ** copied


FAMILIES: dict[str, Callable[[str], Constraint]] = {
    "gain": gain_through,
    "consumed": consumed_through,
    "weight_norm": norm_of_weight,
    "scaled_weight_norm": norm_of_scaled_weight,
}
"""Constraints by the first word of a passage, made from what follows it."""
