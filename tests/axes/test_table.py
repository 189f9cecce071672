"""Tests of the axis table."""

from __future__ import annotations

from growkit.axes.axis import Axis, Occurrence
from growkit.axes.expressions import Role
from growkit.axes.layouts import Layout
from growkit.axes.table import AxisTable

HIDDEN = Axis("fc1.weight[0]", 8, "hidden", (Occurrence("fc1.weight", 0, 0, None, Role.PRODUCES),))
INPUT = Axis("fc1.weight[1]", 3, "input", (Occurrence("fc1.weight", 1, 0, None, Role.CONSUMES),))
TABLE = AxisTable(
    (HIDDEN, INPUT), {"fc1.weight": Layout.parse("fc1.weight[0]:produces fc1.weight[1]:consumes")}, unreached=("extra",)
)


def test_a_table_iterates_over_its_axes() -> None:
    assert list(TABLE) == [HIDDEN, INPUT]
    assert len(TABLE) == 2
    assert TABLE.by_name["fc1.weight[1]"] is INPUT


def test_sizes_give_the_shapes_of_the_layouts() -> None:
    assert TABLE.sizes == {"fc1.weight[0]": 8, "fc1.weight[1]": 3}
    assert TABLE.layouts["fc1.weight"].shape(TABLE.sizes) == (8, 3)


def test_a_name_gives_its_axes() -> None:
    assert TABLE["fc1.weight[0]"] == (HIDDEN,)


def test_printing_shows_every_axis_and_what_was_not_read() -> None:
    text = str(TABLE)
    assert "fc1.weight[0]" in text
    assert "fc1.weight[1]" in text
    assert text.endswith("never read in the traced run: extra")
