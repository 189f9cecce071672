"""Growth by new units that are zero at first, with the old ones scaled so that the mean of squares stays."""

from __future__ import annotations

from dataclasses import replace

from growkit.maps.axis_map import AxisMap
from growkit.maps.methods import zero_pad
from growkit.maps.methods.zero_pad import padded


def padded_level(old_size: int, new_size: int, key: str = "") -> AxisMap:
    """The old units times sqrt(n' / n), then units that are zero.

    Law: the mean of squares over the axis stays, so an RMS norm passes with the gain and the eps that it has. Exact
    where all that lies on the axis passes a factor; gradients move by the inverse factor, so moments exactly.

    Source: as `zero_pad`; the factor is that of its section 3.5 for norms, put where the axis is written.
    """
    return padded(old_size, new_size, key).scaled((new_size / old_size) ** 0.5)


METHOD = replace(zero_pad.METHOD, name="rms_pad", make=padded_level)
