"""Norms: statistics over the units of an axis, or of each unit over the batch.

A statistic that changes by one factor for all activations is put right by the gain and eps of the norm: these factors
are the corrections of the axis. Here is said for which maps there is such a factor.
"""

from __future__ import annotations

from math import isclose

from growkit.constraints.activation import unscaled_units
from growkit.constraints.constraint import Constraint, Refusal, anything, never
from growkit.maps.axis_map import NEW, AxisMap


def uniform_copies(axis_map: AxisMap) -> Refusal | None:
    """Admits only equally many copies of every unit: mean and variance over the units stay.

    Source: Ba et al. 2016, Layer Normalization (arXiv 1607.06450), eq. 3: both are averages over the units.
    """
    if axis_map.uniform and axis_map.expand[0] == 1.0:
        return None
    return Refusal(
        "a norm takes its statistics over it, which only equally many copies of every unit keep",
        f"method 'copy' to a multiple of {axis_map.old_size}: "
        + ", ".join(str(axis_map.old_size * k) for k in (2, 3, 4))
        + ", ...",
    )


def even_squares(axis_map: AxisMap) -> Refusal | None:
    """Admits maps that change the mean square of the units by one factor: new units only if they are zero.

    Source: Zhang and Sennrich 2019, Root Mean Square Layer Normalization (arXiv 1910.07467), eq. 4.
    """
    if axis_map.self_dual and (not axis_map.has_new or axis_map.padded or axis_map.averaged):
        return None
    return Refusal(
        "a norm takes the mean of squares over it, to which every unit must add in equal measure, and new ones nothing",
        f"method 'zero_pad' or 'isometric', or 'copy' to a multiple of {axis_map.old_size}",
    )


def even_variance(axis_map: AxisMap) -> Refusal | None:
    """Admits equally many copies of every unit, beside units that are their mean."""
    scales = {m for unit, m in zip(axis_map.source, axis_map.expand, strict=True) if unit != NEW}
    if axis_map.averaged and axis_map.self_dual and len(scales) == 1:
        return None
    refusal = uniform_copies(axis_map)
    return refusal and Refusal(refusal.reason, f"{refusal.admitted}; or 'mean_pad' to any size, if it is admitted here")


def even_sum(axis_map: AxisMap) -> Refusal | None:
    """Admits maps that change the sum over the units by one factor."""
    if (
        axis_map.self_dual
        and axis_map.total is not None
        and (not axis_map.has_new or axis_map.padded or axis_map.averaged)
    ):
        return None
    return Refusal(
        "a sum is taken over it, to which every unit must add in equal measure, and new ones nothing",
        f"method 'copy' to a multiple of {axis_map.old_size}",
    )


def plain_copies(axis_map: AxisMap) -> Refusal | None:
    """Admits copies, of any units and as they are: the largest and the smallest stay.

    They share evenly, as torch divides the gradient of a largest unit among those that are as large.
    """
    if axis_map.has_new or axis_map.averaged or any(m != 1.0 for m in axis_map.expand):
        return Refusal("the largest or smallest of its units is taken, which a new unit could be", "unscaled copies")
    shares = zip(axis_map.source, axis_map.contract, strict=True)
    if all(isclose(share * axis_map.counts[unit], 1.0, rel_tol=1e-12) for unit, share in shares):
        return None
    return Refusal("the gradient of the largest or smallest of its units is shared evenly by copies", "method 'copy'")


CONSTRAINTS: dict[str, Constraint] = {
    "layer_norm": even_variance,
    "rms_norm": even_squares,
    "mean_square": even_squares,
    "sum": even_sum,
    "reduce:mean": uniform_copies,
    "reduce:variance": uniform_copies,
    "reduce:amax": plain_copies,
    "reduce:amin": plain_copies,
    **dict.fromkeys(
        ("reduce:std", "reduce:var", "reduce:std_mean", "reduce:var_mean"),
        never("a variance is taken over it, of which copies change the divisor, the number of units less 1"),
    ),
    "reduce:argmax": never("the number of its largest unit is taken, which new units would change"),
    "reduce:argmin": never("the number of its smallest unit is taken, which new units would change"),
    # of each unit alone on its way to a sum, or of all units at once
    "statistic": anything,
    # channels inside each group; whole groups have statistics of their own (Wu and He 2018, arXiv 1803.08494, eq. 4)
    "group_norm": uniform_copies,
    "norm_groups": unscaled_units,
    # statistics of each unit over the batch: copies have those of their unit (Ioffe and Szegedy 2015, alg. 1);
    # a unit that is zero would be divided by sqrt(eps), and its bias read at once
    "batch_norm": unscaled_units,
}
