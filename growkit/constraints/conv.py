"""Convolutions that treat channels one by one."""

from __future__ import annotations

from growkit.constraints.constraint import Constraint, anything

CONSTRAINTS: dict[str, Constraint] = {
    # linear in each channel, so even a scale passes
    "depthwise_conv": anything,
}
