"""Tests of what is known about one axis."""

from __future__ import annotations

from growkit.axes.axis import Axis, Lock, Occurrence
from growkit.axes.expressions import Role


def test_an_occurrence_is_written_as_tensor_dim_and_factor() -> None:
    assert str(Occurrence("fc1.weight", 0, 0, None, Role.PRODUCES)) == "fc1.weight[0]"
    assert str(Occurrence("q.weight", 0, 1, 1, Role.PRODUCES)) == "q.weight[0].1"


def test_an_axis_answers_to_its_name_and_every_dim() -> None:
    found = (Occurrence("fc1.weight", 0, 0, None, Role.PRODUCES), Occurrence("fc2.weight", 1, 0, None, Role.CONSUMES))
    assert Axis("ffn", 8, "hidden", found).names == {"ffn", "fc1.weight[0]", "fc2.weight[1]"}


def test_an_axis_with_a_lock_is_locked() -> None:
    assert not Axis("a", 2, "hidden", ()).locked
    assert Axis("a", 2, "fixed", (), locks=(Lock("kernel", "conv", "grow another axis"),)).locked
