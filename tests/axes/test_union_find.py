"""Tests of the union-find over axes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growkit.axes.axis import Lock
from growkit.axes.expressions import Concat, Leaf, Product, Role
from growkit.axes.node import Irreconcilable, Node
from growkit.axes.reading import expression
from growkit.axes.union_find import Axes


def _shape_of(axes: Axes, node: Node) -> str:
    """Expression with sizes instead of axes, such as `(2 [3|3])`."""

    def show(e: object) -> str:
        match e:
            case Leaf(serial):
                return str(axes.nodes[int(serial)].size)
            case Product(factors):
                return "(" + " ".join(map(show, factors)) + ")"
            case Concat(parts):
                return "[" + "|".join(map(show, parts)) + "]"
        raise TypeError(e)

    return show(expression(axes, node))


def test_unified_nodes_are_one_axis_and_the_oldest_stands_for_it() -> None:
    axes = Axes()
    a, b, c = (axes.node(4) for _ in range(3))
    axes.unify([c], [b])
    axes.unify([b], [a])
    assert axes.root(c) is a
    assert axes.root(b) is a


def test_sizes_alone_tie_nothing() -> None:
    axes = Axes()
    assert axes.root(axes.node(4)) is not axes.root(axes.node(4))


def test_roles_stay_with_the_occurrence() -> None:
    axes = Axes()
    a, b = axes.node(4), axes.node(4)
    axes.assign([a], Role.PRODUCES)
    axes.assign([b], Role.CONSUMES)
    axes.unify([a], [b])
    assert [set(a.roles), set(b.roles)] == [{Role.PRODUCES}, {Role.CONSUMES}]


def test_passages_and_locks_belong_to_the_axis() -> None:
    axes = Axes()
    a, b = axes.node(4), axes.node(4)
    axes.note([a], "gate", "here")
    axes.lock([b], Lock("kernel", "conv", "none"), declarable=True)
    axes.unify([a], [b])
    assert [(p.kind, p.where) for p in axes.shared(b).passages] == [("gate", "here")]
    assert axes.shared(a).locks == {Lock("kernel", "conv", "none"): True}


def test_a_split_is_shared_by_all_occurrences() -> None:
    axes = Axes()
    a, b = axes.node(12, named=True), axes.node(12)
    axes.split(a, 3)
    axes.unify([a], [b])
    assert _shape_of(axes, b) == "(3 4)"
    assert expression(axes, a) == expression(axes, b)


def test_products_are_refined_until_they_agree() -> None:
    axes = Axes()
    h, rest = axes.node(2), axes.node(15)
    outer, d = axes.node(6), axes.node(5)
    axes.unify([h, rest], [outer, d])
    assert _shape_of(axes, outer) == "(2 3)"
    assert _shape_of(axes, rest) == "(3 5)"
    assert axes.root(axes.parts(outer).nodes[0]) is axes.root(h)
    assert axes.root(axes.parts(rest).nodes[1]) is axes.root(d)


def test_products_that_do_not_divide_are_irreconcilable() -> None:
    axes = Axes()
    with pytest.raises(Irreconcilable, match="4 units in 3 equal blocks"):
        axes.unify([axes.node(3), axes.node(4)], [axes.node(4), axes.node(3)])


def test_tie_locks_both_where_structures_cannot_both_hold() -> None:
    axes = Axes()
    a, b, c, d = axes.node(3), axes.node(4), axes.node(4), axes.node(3)
    axes.tie([a, b], [c, d], "module (op)")
    for node in (a, b, c, d):
        (lock,) = axes.shared(node).locks
        assert lock.reason.startswith("its structure is contradictory")
        assert lock.where == "module (op)"


def test_halves_of_a_gate_are_one_axis_twice() -> None:
    axes = Axes()
    weight = axes.node(10, named=True)
    value, gate = axes.cut([weight], 0, 5), axes.cut([weight], 5, 10)
    axes.unify(value, gate)
    assert _shape_of(axes, weight) == "[5|5]"
    assert len({leaf.axis for leaf in expression(axes, weight).parts}) == 1


def test_fused_projections_split_into_heads() -> None:
    axes = Axes()
    weight = axes.node(18, named=True)
    q, k, v = (axes.cut([weight], i, i + 6) for i in (0, 6, 12))
    (hq, dq), (hk, dk), (hv, _) = ([*axes.split(part[0], 2)[0], *axes.split(part[0], 2)[1]] for part in (q, k, v))
    for other in (hk, hv):
        axes.unify([hq], [other])
    axes.unify([dq], [dk])
    names = [[leaf.axis for leaf in part.factors] for part in expression(axes, weight).parts]
    assert _shape_of(axes, weight) == "[(2 3)|(2 3)|(2 3)]"
    assert names[0] == names[1]
    assert names[2][0] == names[0][0]
    assert names[2][1] != names[0][1]


def test_heads_outside_of_concatenated_parts() -> None:
    axes = Axes()
    weight = axes.node(2 * (3 + 3 + 4), named=True)
    _, inner = axes.split(weight, 2)
    axes.unify(axes.cut(inner, 0, 3), axes.cut(inner, 3, 6))
    assert _shape_of(axes, weight) == "(2 [3|3|4])"


def test_concatenations_with_other_boundaries_are_cut_at_both() -> None:
    axes = Axes()
    a, b, c, d = (axes.node(n, named=True) for n in (2, 6, 5, 3))
    left, right = axes.concat([[a], [b]]), axes.concat([[c], [d]])
    axes.unify([left], [right])
    assert _shape_of(axes, left) == "[2|3|3]"
    assert _shape_of(axes, c) == "[2|3]"
    assert axes.root(axes.parts(b).nodes[1]) is axes.root(d)


def test_a_product_that_is_also_a_concatenation_is_irreconcilable() -> None:
    axes = Axes()
    a, b = axes.node(6, named=True), axes.node(6, named=True)
    axes.split(a, 2)
    axes.cut([b], 0, 2)
    with pytest.raises(Irreconcilable, match=r"a product .* that is also a concatenation"):
        axes.unify([a], [b])


def test_slices_of_an_axis_that_no_tensor_holds_are_new_axes() -> None:
    axes = Axes()
    time = axes.node(8)
    first, later = axes.cut([time], 0, 7), axes.cut([time], 1, 8)
    assert axes.parts(time) is None
    assert axes.root(first[0]) is not axes.root(later[0])


def test_a_slice_may_take_whole_blocks_only() -> None:
    axes = Axes()
    node = axes.node(12, named=True)
    axes.split(node, 3)
    assert [n.size for n in axes.cut([node], 4, 12)] == [2, 4]
    with pytest.raises(Irreconcilable, match="a slice 0:2 across the blocks"):
        axes.cut([node], 0, 2)


def test_being_held_by_a_tensor_is_known_to_parts_and_wholes() -> None:
    axes = Axes()
    whole, other = axes.node(6), axes.node(6, named=True)
    (outer,), (inner,) = axes.split(whole, 2)
    assert not axes.named([outer, inner])
    axes.unify([whole], [other])
    assert axes.named([outer])
    assert axes.named([inner])
    assert axes.named([axes.concat([[axes.node(3)], [inner]])])


def test_nodes_of_one_unit_are_identified_only_when_asked() -> None:
    axes = Axes()
    a, b = axes.node(1), axes.node(1)
    axes.unify([a], [b])
    assert axes.root(b) is b
    axes.identify(a, b)
    assert axes.root(b) is a


FACTORS = st.lists(st.integers(2, 4), min_size=1, max_size=4)


@given(FACTORS, st.data())
@settings(deadline=None, max_examples=50)
def test_unify_is_symmetric(factors: list[int], data: st.DataObject) -> None:
    """The same two products give the same structure in either order."""
    cuts = data.draw(st.sets(st.integers(1, len(factors)), max_size=2))
    merged, last = [], 0
    for stop in sorted({*cuts, len(factors)}):
        size = 1
        for factor in factors[last:stop]:
            size *= factor
        merged.append(size)
        last = stop
    shapes = []
    for swap in (False, True):
        axes = Axes()
        fine, coarse = [axes.node(n) for n in factors], [axes.node(n) for n in merged if n != 1]
        axes.unify(*((coarse, fine) if swap else (fine, coarse)))
        shapes.append([_shape_of(axes, node) for node in (*fine, *coarse)])
    assert shapes[0] == shapes[1]
