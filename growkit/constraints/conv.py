"""Convolutions that treat channels one by one, or group by group."""

from __future__ import annotations

from growkit.constraints.constraint import Constraint, anything

CONSTRAINTS: dict[str, Constraint] = {
    # linear in each channel, so even a scale passes
    "depthwise_conv": anything,
    # a group is linear in its own channels only
    "grouped_conv": anything,
}
