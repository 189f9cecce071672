"""Tests of the row-major reshape."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growkit.axes.reading import leaf_nodes
from growkit.axes.reshape import reshape
from growkit.axes.union_find import Axes


def _sizes(dims: list) -> list[int]:
    return [prod(node.size for node in dim) for dim in dims]


def test_heads_are_split_and_merged_again() -> None:
    axes = Axes()
    batch, features = axes.node(5), axes.node(12, named=True)
    split = reshape(axes, [[batch], [features]], [5, 12], [5, 3, 4], "x")
    assert split[0] == [batch]
    assert _sizes(split) == [5, 3, 4]
    (merged_batch, merged) = reshape(axes, split, [5, 3, 4], [5, 12], "x")
    assert merged_batch == [batch]
    assert merged == [*split[1], *split[2]]


def test_merging_two_dims_makes_a_product_of_both() -> None:
    axes = Axes()
    a, b = axes.node(2), axes.node(3)
    assert reshape(axes, [[a], [b]], [2, 3], [6], "x") == [[a, b]]


def test_dims_of_one_unit_come_and_go() -> None:
    axes = Axes()
    a, b = axes.node(4), axes.node(3)
    assert reshape(axes, [[a], [b]], [4, 3], [4, 1, 3, 1], "x") == [[a], [], [b], []]
    assert reshape(axes, [[a], [], [b]], [4, 1, 3], [4, 3], "x") == [[a], [b]]


def test_equal_sizes_do_not_confuse_dims() -> None:
    axes = Axes()
    nodes = [axes.node(4) for _ in range(3)]
    result = reshape(axes, [[n] for n in nodes], [4, 4, 4], [4, 16], "x")
    assert result == [[nodes[0]], nodes[1:]]


@pytest.mark.parametrize(
    ("old", "new"), [([0, 4, 6], [0, 24]), ([0, 24], [0, 4, 6]), ([4, 0, 6], [0, 3]), ([0], [0, 4])]
)
def test_without_entries_the_sizes_do_not_tell_what_becomes_what(old: list[int], new: list[int]) -> None:
    axes = Axes()
    dims = [[axes.node(size, named=True)] for size in old]
    made = reshape(axes, dims, old, new, "x")
    assert _sizes(made) == new
    for dim in dims:
        assert dim in made or "has no entries" in next(iter(axes.shared(dim[0]).locks)).reason


def test_a_reshape_across_the_structure_locks_and_gives_new_axes() -> None:
    axes = Axes()
    a, b = axes.node(4, named=True), axes.node(3)
    (c, d) = reshape(axes, [[a], [b]], [4, 3], [3, 4], "module (view)")
    (lock,) = axes.shared(a).locks
    assert lock.reason.startswith("a reshape that cannot be followed")
    assert lock.where == "module (view)"
    assert _sizes([c, d]) == [3, 4]
    assert not {axes.root(n) for n in (*c, *d)} & {axes.root(a), axes.root(b)}


@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5), st.data())
@settings(deadline=None, max_examples=60)
def test_chains_of_reshapes_keep_sizes_and_units(shape: list[int], data: st.DataObject) -> None:
    """Merging and splitting in any order keeps every leaf, and its order, whatever sizes coincide."""
    axes = Axes()
    flat = axes.node(prod(shape), named=True)
    (dims, current) = ([[flat]], [prod(shape)])
    for _ in range(3):
        cuts = sorted(data.draw(st.sets(st.integers(1, len(shape)), max_size=3)))
        new = [prod(shape[a:b]) for a, b in zip([0, *cuts], [*cuts, len(shape)], strict=True)]
        dims = reshape(axes, dims, current, new, "x")
        current = new
        assert _sizes(dims) == new
        assert not axes.shared(flat).locks
    (back,) = reshape(axes, dims, current, [prod(shape)], "x")
    roots = [axes.root(leaf).serial for node in back for leaf in leaf_nodes(axes, node) if leaf.size > 1]
    assert roots == [axes.root(leaf).serial for leaf in leaf_nodes(axes, flat) if leaf.size > 1]
