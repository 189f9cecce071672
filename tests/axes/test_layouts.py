"""Tests of layouts."""

from __future__ import annotations

from growkit.axes.expressions import Leaf, Role
from growkit.axes.layouts import Layout

FUSED = Layout.parse("[(h k)|(h k)|(h v)]:produces stream:consumes 1")


def test_shape_follows_from_the_sizes() -> None:
    assert FUSED.shape({"h": 2, "k": 3, "v": 5, "stream": 7}) == (2 * 3 + 2 * 3 + 2 * 5, 7, 1)


def test_axes_come_once_in_order() -> None:
    assert FUSED.axes() == ("h", "k", "v", "stream")


def test_iteration_gives_every_leaf_with_its_role() -> None:
    assert list(Layout.parse("(h d):produces x")) == [
        Leaf("h", Role.PRODUCES),
        Leaf("d", Role.PRODUCES),
        Leaf("x"),
    ]


def test_rename_gives_the_same_layout_over_other_names() -> None:
    assert str(FUSED.rename({"h": "heads", "stream": "s"})) == "[(heads k)|(heads k)|(heads v)]:produces s:consumes 1"
