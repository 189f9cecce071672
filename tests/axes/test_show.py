"""Tests of the printed table."""

from __future__ import annotations

from growkit.axes.axis import Axis, Equality, Lock, Number, Occurrence, Passage
from growkit.axes.expressions import Leaf, Product, Role
from growkit.axes.show import show_table


def _occurrence(tensor: str, role: Role | None) -> Occurrence:
    return Occurrence(tensor, 0, 0, None, role)


PASSAGES = (Passage("softmax", "a"), Passage("gate", "b"))
AXES = (
    Axis("fc1[0]", 16, "hidden", (_occurrence("fc1", Role.PRODUCES), _occurrence("b", Role.PRODUCES)), admits=("any",)),
    Axis("conv[2]", 5, "fixed", (_occurrence("conv", None),), locks=(Lock("a kernel", "conv", ""), Lock("x", "y", ""))),
    Axis(
        "q", 4, "head_dim", (_occurrence("q", Role.PRODUCES),), passages=(Passage("softmax", "a"), Passage("gate", "b"))
    ),
    Axis("v", 4, "head_dim", (_occurrence("v", Role.PRODUCES),)),
)


def test_each_axis_is_one_aligned_line() -> None:
    lines = show_table(AXES, (), (), (), ()).splitlines()
    assert lines[0] == "axis     size  kind      occurs in       grows"
    assert lines[2:] == [
        "fc1[0]   16    hidden    2 (produces 2)  any",
        "conv[2]  5     fixed     1 (labels 1)    locked: a kernel (at conv) and 1 more",
        "q        4     head_dim  1 (produces 1)  passes gate, softmax",
        "v        4     head_dim  1 (produces 1)  freely",
    ]


def test_numbers_that_tie_axes_and_equal_sizes_are_listed() -> None:
    product = Product((Leaf("h"), Leaf("v")))
    tie = Number("block.head_dim", None, 4, (Leaf("q"), Leaf("v")), read=True)
    alone = Number("block.heads", None, 2, (Leaf("h"),), read=True)
    kept = Number("block.fc.out_features", None, 4, (Leaf("q"), Leaf("v")), read=False)
    text = show_table(AXES, (tie, alone, kept), (Equality((Leaf("q"), product), "block (chunk)"),), (), ())
    assert text.splitlines()[-2:] == ["  block.head_dim = 4 = q = v", "  q = (h v) (at block (chunk))"]


def test_long_reasons_are_shortened() -> None:
    locked = Axis("a", 2, "fixed", (_occurrence("a", None),), locks=(Lock("r" * 100, "", ""),))
    assert show_table((locked,), (), (), (), ()).splitlines()[2].endswith("locked: " + "r" * 49 + "...")


def test_warnings_come_last() -> None:
    text = show_table(AXES, (), (), ("extra",), ("the run branches",))
    assert text.endswith("never read in the traced run: extra\n\nwarning: the run branches")
