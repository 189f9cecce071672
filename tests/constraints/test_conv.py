"""Depthwise and grouped convolutions are linear in each channel and group."""

from growkit.constraints.conv import CONSTRAINTS
from tests.constraints.maps import MAPS, admitted


def test_what_is_admitted() -> None:
    assert CONSTRAINTS.keys() == {"depthwise_conv", "grouped_conv"}
    for constraint in CONSTRAINTS.values():
        assert admitted(constraint) == set(MAPS)
