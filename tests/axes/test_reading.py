"""Tests of reading structures back."""

from __future__ import annotations

from growkit.axes.axis import Lock
from growkit.axes.expressions import Concat, Leaf, Product, Role
from growkit.axes.node import Node
from growkit.axes.reading import expression, leaf_nodes, settle
from growkit.axes.union_find import Axes


def test_nested_structures_are_flattened_and_leaves_carry_roles() -> None:
    axes = Axes()
    weight = axes.node(24, named=True)
    (outer,), (inner,) = axes.split(weight, 2)
    (a,), (b,) = axes.split(inner, 3)
    axes.cut([b], 0, 1)
    axes.assign([weight], Role.PRODUCES)
    settle(axes)
    left, right = axes.parts(b).nodes
    assert expression(axes, weight) == Product(
        (
            Leaf(str(outer.serial), Role.PRODUCES),
            Leaf(str(a.serial), Role.PRODUCES),
            Concat((Leaf(str(left.serial), Role.PRODUCES), Leaf(str(right.serial), Role.PRODUCES))),
        )
    )
    assert leaf_nodes(axes, weight) == [outer, a, left, right]


def test_two_roles_of_one_occurrence_give_none() -> None:
    axes = Axes()
    node = axes.node(3, named=True)
    axes.assign([node], Role.PRODUCES)
    axes.assign([node], Role.CONSUMES)
    assert expression(axes, node) == Leaf("0", None)


def test_settle_hands_passages_and_locks_to_the_parts() -> None:
    axes = Axes()
    whole = axes.node(6, named=True)
    parts = axes.split(whole, 2)
    axes.note([whole], "layer_norm", "norm")
    axes.lock([whole], Lock("why", "where", "next"))
    settle(axes)
    for (part,) in parts:
        assert [p.kind for p in axes.shared(part).passages] == ["layer_norm"]
        assert axes.shared(part).locks == {Lock("why", "where", "next"): False}


def test_settle_gives_roles_to_the_parts_of_that_occurrence_only() -> None:
    axes = Axes()
    first, second = axes.node(6, named=True), axes.node(6, named=True)
    axes.assign([first], Role.PRODUCES)
    axes.assign([second], Role.CONSUMES)
    axes.split(first, 2)
    axes.unify([first], [second])
    settle(axes)
    assert {role for leaf in leaf_nodes(axes, first) for role in leaf.roles} == {Role.PRODUCES}
    assert {role for leaf in leaf_nodes(axes, second) for role in leaf.roles} == {Role.CONSUMES}


def _kinds(axes: Axes, node: Node) -> list[str]:
    return sorted(passage.kind for passage in axes.shared(node).passages)


def test_what_looks_at_a_whole_concatenation_is_marked_on_its_parts() -> None:
    """Statistics on every part; an output on all but the last, behind which new units keep all places."""
    axes = Axes()
    first, last = axes.node(2), axes.node(3)
    whole = axes.concat([[first], [last]])
    for kind in ("layer_norm", "output", "residual", "reduce:mean"):
        axes.note([whole], kind, "here")
    settle(axes)
    beside = ["layer_norm beside others", "output beside others", "reduce:mean beside others", "residual"]
    assert _kinds(axes, first) == beside
    assert _kinds(axes, last) == ["layer_norm beside others", "output", "reduce:mean beside others", "residual"]


def test_statistics_over_one_axis_several_times_are_those_over_that_axis() -> None:
    axes = Axes()
    first, second = axes.node(3), axes.node(3)
    axes.unify([first], [second])
    whole = axes.concat([[first], [second]])
    for kind in ("rms_norm", "output"):
        axes.note([whole], kind, "here")
    settle(axes)
    assert _kinds(axes, first) == ["output", "output beside others", "rms_norm"]


def test_of_a_product_only_the_slowest_factor_can_append_to_an_output() -> None:
    axes = Axes()
    whole = axes.node(6, named=True)
    (major,), (minor,) = axes.split(whole, 2)
    for kind in ("layer_norm", "output"):
        axes.note([whole], kind, "here")
    settle(axes)
    assert _kinds(axes, major) == ["layer_norm", "output"]
    assert _kinds(axes, minor) == ["layer_norm", "output beside others"]
