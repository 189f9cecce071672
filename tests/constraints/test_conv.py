"""Depthwise convolutions are linear in each channel."""

from growkit.constraints.conv import CONSTRAINTS
from tests.constraints.maps import MAPS, admitted


def test_what_is_admitted() -> None:
    assert admitted(CONSTRAINTS["depthwise_conv"]) == set(MAPS)
