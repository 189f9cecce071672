"""Tests of handing roles back to what a tensor was computed from."""

from __future__ import annotations

from growkit.axes.expressions import Role
from growkit.axes.reading import leaf_nodes, settle
from growkit.axes.union_find import Axes
from growkit.discovery.derived import FACTOR, SHIFTED, TERM, Derived, Normed


def _kinds(axes: Axes, node: object) -> set[str]:
    return {passage.kind for passage in axes.shared(node).passages}  # type: ignore[arg-type]


def test_roles_go_back_through_several_steps() -> None:
    axes, derived = Axes(), Derived()
    w, mask, other = (axes.node(6, named=True) for _ in range(3))
    axes.identify(w, mask)
    axes.identify(w, other)
    masked = derived.link(axes, [([w], TERM), ([mask], FACTOR)], "a")
    total = derived.link(axes, [(masked, TERM), ([other], TERM)], "b")
    axes.assign(total, Role.CONSUMES)
    settle(axes)
    derived.hand_back(axes)
    assert [list(node.roles) for node in (w, mask, other)] == [[Role.CONSUMES], [Role.GAIN], [Role.CONSUMES]]
    assert [list(node.roles) for node in (*masked, *total)] == [[], []]
    assert axes.root(w) is axes.root(mask) is axes.root(other)


def test_roles_of_parts_go_to_the_same_parts() -> None:
    axes, derived = Axes(), Derived()
    w, v = axes.node(6, named=True), axes.node(6, named=True)
    axes.identify(w, v)
    (total,) = derived.link(axes, [([w], TERM), ([v], TERM)], "here")
    heads, units = axes.split_dim([total], 2)
    axes.assign(heads, Role.GAIN)
    axes.assign(units, Role.PRODUCES)
    settle(axes)
    derived.hand_back(axes)
    for node in (w, v):
        assert [list(leaf.roles) for leaf in leaf_nodes(axes, node)] == [[Role.GAIN], [Role.PRODUCES]]


def test_what_a_role_makes_of_a_function_and_of_a_shift() -> None:
    found = {}
    for through in ("exp", SHIFTED):
        for role in (Role.PRODUCES, Role.GAIN, Role.CONSUMES):
            axes, derived = Axes(), Derived()
            w = axes.node(6, named=True)
            axes.assign(derived.link(axes, [([w], through)], "here"), role)
            settle(axes)
            derived.hand_back(axes)
            assert list(w.roles) == [role]
            found[through, role] = (_kinds(axes, w), bool(axes.shared(w).locks))
    assert found == {
        ("exp", Role.PRODUCES): ({"pointwise:exp"}, False),
        ("exp", Role.GAIN): ({"gain:exp"}, False),
        ("exp", Role.CONSUMES): ({"consumed:exp"}, False),
        (SHIFTED, Role.PRODUCES): ({"shifted"}, False),
        (SHIFTED, Role.GAIN): (set(), False),
        (SHIFTED, Role.CONSUMES): (set(), True),
    }


def test_a_norm_counts_the_roles_of_each_axis_in_it() -> None:
    axes, derived = Axes(), Derived()
    rows, columns, places = axes.node(6, named=True), axes.node(6, named=True), axes.node(3, named=True)
    axes.identify(rows, columns)
    derived.normed.append(Normed(([rows], [columns], [places]), "here"))
    axes.assign([rows], Role.PRODUCES)
    axes.assign([columns], Role.CONSUMES)
    settle(axes)
    derived.hand_back(axes)
    assert _kinds(axes, rows) == {"weight_norm 1 1 0"}
    assert _kinds(axes, places) == {"weight_norm 0 0 1"}


def test_dims_of_one_unit_are_no_axes() -> None:
    axes, derived = Axes(), Derived()
    assert derived.link(axes, [([], TERM), ([axes.node(1, named=True)], TERM)], "here") == []
    assert derived.links == []
