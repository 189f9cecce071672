"""Growth by whole copies and units that are the mean of the old ones, scaled so that the variance stays."""

from __future__ import annotations

from dataclasses import replace

from growkit.maps.axis_map import AxisMap
from growkit.maps.methods import mean_pad
from growkit.maps.methods.mean_pad import averaged


def averaged_level(old_size: int, new_size: int, key: str = "") -> AxisMap:
    """As `mean_pad`, all of it times sqrt(n' / q n) for q copies of n units among n'.

    Law: the variance over the axis stays, so a layer norm passes with the gain and the eps that it has. Exact where all
    that lies on the axis passes a factor.

    Source: as `mean_pad`, whose factor for the norm is put where the axis is written.
    """
    whole = new_size // old_size * old_size
    return averaged(old_size, new_size, key).scaled((new_size / whole) ** 0.5)


METHOD = replace(mean_pad.METHOD, name="std_pad", make=averaged_level)
