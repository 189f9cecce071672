"""Norms: statistics over the units of an axis, or of each unit over the batch."""

from __future__ import annotations

from growkit.constraints.activation import unscaled_units
from growkit.constraints.constraint import Constraint, Refusal
from growkit.maps.axis_map import AxisMap


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


CONSTRAINTS: dict[str, Constraint] = {
    "layer_norm": uniform_copies,
    "rms_norm": uniform_copies,
    "reduce:mean": uniform_copies,
    # channels inside each group; whole groups have statistics of their own (Wu and He 2018, arXiv 1803.08494, eq. 4)
    "group_norm": uniform_copies,
    "norm_groups": unscaled_units,
    # statistics of each unit over the batch: copies have those of their unit (Ioffe and Szegedy 2015, alg. 1);
    # a unit that is zero would be divided by sqrt(eps), and its bias read at once
    "batch_norm": unscaled_units,
}
