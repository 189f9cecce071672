"""Reading structures back once everything is unified."""

from __future__ import annotations

from growkit.axes.expressions import Concat, Expression, Leaf, Product
from growkit.axes.occurrence import Join, Node
from growkit.axes.union_find import Axes


def leaf_nodes(axes: Axes, node: Node) -> list[Node]:
    """The whole occurrences that a node is made of, from left to right."""
    parts = axes.parts(node)
    return [leaf for part in parts.nodes for leaf in leaf_nodes(axes, part)] if parts else [node]


def expression(axes: Axes, node: Node) -> Expression:
    """The structure of a node with its roles; leaves are called by the serial number of their root."""
    parts = axes.parts(node)
    if parts is None:
        role = next(iter(node.roles)) if len(node.roles) == 1 else None
        return Leaf(str(axes.root(node).serial), role)
    children: list[Expression] = []
    product = parts.join is Join.PRODUCT
    for part in parts.nodes:
        child = expression(axes, part)
        match child:
            case Product(nested) if product:
                children += nested
            case Concat(nested) if not product:
                children += nested
            case _:
                children.append(child)
    return Product(tuple(children)) if product else Concat(tuple(children))


def settle(axes: Axes) -> None:
    """Hands roles, passages and locks of composite nodes down to their parts; roles only once."""
    for node in axes.nodes:  # grows while it runs: each occurrence gets parts of its own
        axes.parts(node)
    for node in sorted(axes.nodes, key=lambda n: -n.size):
        shared = axes.shared(node)
        for part in node.parts.nodes if node.parts else ():
            part.roles.update(node.roles)
            theirs = axes.shared(part)
            theirs.passages |= shared.passages
            for lock, declarable in shared.locks.items():
                theirs.locks.setdefault(lock, declarable)
        if node.parts:
            node.roles = {}
