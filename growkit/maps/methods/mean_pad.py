"""Growth by whole copies, then units that are the mean of the old ones, which a layer norm makes zero."""

from __future__ import annotations

from growkit.axes.expressions import Role
from growkit.maps.axis_map import NEW, AxisMap
from growkit.maps.methods.method import Fill, Method


def averaged(old_size: int, new_size: int, key: str = "") -> AxisMap:
    """As many whole copies of the old units as fit, then units that carry their mean.

    Law: exact where every reader is behind a layer norm, whose gain takes the factor sqrt(q n / n') and whose eps
    takes q n / n', with q copies of n units among n'. Gradients of the tensors that write the axis are no linear map
    of the old ones, so their moments move approximately; all others move exactly. New units learn from the first step
    on.

    Source: Wang et al. 2023, LEMON (arXiv 2310.07999), section 4.2.
    """
    whole = new_size // old_size * old_size
    source = (*[unit % old_size for unit in range(whole)], *[NEW] * (new_size - whole))
    return AxisMap.copies(old_size, source, averaged=new_size > whole)


METHOD = Method(
    "mean_pad",
    averaged,
    {
        Role.PRODUCES: Fill.MEAN,
        Role.CONSUMES: Fill.RANDOM,
        Role.GAIN: Fill.ONE,
        Role.BIAS: Fill.ZERO,
        Role.READOUT: Fill.ONE,
        Role.MEAN: Fill.MEAN,
        Role.VARIANCE: Fill.MEAN,
    },
)
