"""Reading structures back once everything is unified."""

from __future__ import annotations

from growkit.axes.axis import Passage
from growkit.axes.expressions import Concat, Expression, Leaf, Product
from growkit.axes.node import Join, Node, Parts
from growkit.axes.union_find import Axes

BESIDE_OTHERS = " beside others"
"""End of the kind of a passage that takes a part of a composite dim together with the others."""

_TOGETHER = ("layer_norm", "rms_norm", "group_norm", "reduce:")


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
    """Hands roles, passages and locks of composite nodes down to their parts; roles only once.

    What looks at all units of a concatenation together (statistics, an output whose places count) is marked so on
    its parts, unless the part can grow without the others: new units at the very end keep the places of the old, and
    statistics over several values of each unit, as in merged patches, are statistics over the units.
    """
    # the nodes grow while it runs: each occurrence gets parts of its own
    composite = [(node, parts) for node in axes.nodes if (parts := axes.parts(node))]
    for node, parts in sorted(composite, key=lambda found: -found[0].size):
        shared = axes.shared(node)
        for part in parts.nodes:
            part.roles.update(node.roles)
            theirs = axes.shared(part)
            for passage in shared.passages:
                theirs.passages[_handed_down(axes, passage, part, parts)] = None
            for lock, declarable in shared.locks.items():
                theirs.locks.setdefault(lock, declarable)
        node.roles = {}


def _handed_down(axes: Axes, passage: Passage, part: Node, parts: Parts) -> Passage:
    concat = parts.join is Join.CONCAT
    if passage.kind in ("output", "lookup"):
        # row-major: what is appended to the last part, or to the slowest factor, comes after everything
        alone = part is (parts.nodes[-1] if concat else parts.nodes[0])
    else:
        others = concat and any(axes.root(other) is not axes.root(part) for other in parts.nodes)
        alone = not (others and passage.kind.startswith(_TOGETHER))
    together = passage.kind.endswith(BESIDE_OTHERS)
    return passage if alone or together else Passage(passage.kind + BESIDE_OTHERS, passage.where)
