"""Tests of nodes."""

from __future__ import annotations

from growkit.axes.node import Node


def test_a_new_node_is_whole_and_stands_for_itself() -> None:
    node = Node(6, serial=3, named=True)
    assert node.parent is node
    assert node.parts is None
    assert node.shared.named
    assert repr(node) == "#3:6"


def test_nodes_keep_their_roles_apart() -> None:
    assert Node(2, 0, False).roles is not Node(2, 1, False).roles
