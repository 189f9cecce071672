"""Which dimensions are the same axis: union-find over occurrences, with structure.

A dimension is refined only when something asks for it: a reshape splits it into factors, a slice
into pieces. Nodes that are unified end up with the same structure. Sizes are used inside one reshape
only, never to guess that two axes are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod

from growkit.axes.axis import Lock, Passage
from growkit.axes.expressions import Role
from growkit.axes.node import Dim, Irreconcilable, Join, Node, Parts, Shared

_MOST_PIECES = 200
"""More pieces than this come from an axis that meets itself shifted by one."""


class Axes:
    """All occurrences of one model, and which of them are one axis."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def node(self, size: int, named: bool = False) -> Node:
        """A new axis of `size` units."""
        made = Node(size, len(self.nodes), named)
        self.nodes.append(made)
        return made

    def root(self, node: Node) -> Node:
        """The node that stands for the whole axis: its oldest occurrence."""
        root = node.parent
        if root.parent is root:
            return root
        while root.parent is not root:
            root = root.parent
        while node.parent is not root:
            node.parent, node = root, node.parent
        return root

    def shared(self, node: Node) -> Shared:
        """What all occurrences of the axis of `node` have in common."""
        return self.root(node).shared

    # What is known about axes

    def named(self, dim: Iterable[Node]) -> bool:
        """Whether a parameter or buffer holds any of these axes."""
        return any(self.shared(node).named for node in dim)

    def mark(self, node: Node) -> None:
        """Says that a parameter or buffer holds this axis."""
        shared = self.shared(node)
        if not shared.named:
            shared.named = True
            for part in shared.parts.nodes if shared.parts else ():
                self.mark(part)

    def note(self, dim: Iterable[Node], kind: str, where: str) -> None:
        """Records that an activation passes something along these axes."""
        passage = Passage(kind, where)
        for node in dim:
            self.shared(node).passages[passage] = None

    def lock(self, dim: Iterable[Node], lock: Lock, declarable: bool = False) -> None:
        """Forbids these axes to grow; a declared layout opens the lock if it is `declarable`."""
        for node in dim:
            self.shared(node).locks.setdefault(lock, declarable)

    def assign(self, dim: Iterable[Node], role: Role) -> None:
        """Gives these occurrences a role."""
        for node in dim:
            node.roles[role] = None

    # Identity

    def tie(self, first: Dim, second: Dim, where: str) -> None:
        """Unifies two dims; locks them where their structures cannot both hold."""
        if first == second:
            return
        try:
            self.unify(first, second)
        except Irreconcilable as conflict:
            lock = Lock(f"its structure is contradictory: {conflict}", where, "declare the layouts of these tensors")
            self.lock([*first, *second], lock)

    def unify(self, first: Dim, second: Dim) -> None:
        """Says that two dims are the same axes in the same order.

        Raises:
            Irreconcilable: their structures cannot both hold.
        """
        a, b = _without_ones(first), _without_ones(second)
        if len(a) == len(b) == 1:
            self.identify(a[0], b[0])
        elif _size(a) != _size(b):
            raise Irreconcilable(f"sizes {_size(a)} and {_size(b)}")
        elif len(a) == 1:
            self._bind(a[0], Parts(Join.PRODUCT, tuple(b)))
        elif len(b) == 1:
            self._bind(b[0], Parts(Join.PRODUCT, tuple(a)))
        else:
            self._unify_products(a, b)

    def _unify_products(self, first: Sequence[Node], second: Sequence[Node]) -> None:
        """Walks two products from the slowest factor, splitting the larger one."""
        a, b = list(first)[::-1], list(second)[::-1]
        while a and b:
            x, y = a.pop(), b.pop()
            if x.size == y.size:
                self.identify(x, y)
                continue
            if x.size > y.size:
                (a, x), (b, y) = (b, y), (a, x)
            outer, inner = self.split(y, x.size)
            self.unify([x], outer)
            b += inner[::-1]

    def identify(self, a: Node, b: Node) -> None:
        """As `unify` for two nodes; it also takes nodes of one unit, which `unify` passes over.

        Raises:
            Irreconcilable: their structures cannot both hold.
        """
        a, b = self.root(a), self.root(b)
        if a is b:
            return
        if a.size != b.size:
            raise Irreconcilable(f"sizes {a.size} and {b.size}")
        if b.serial < a.serial:
            a, b = b, a
        b.parent = a
        kept, gone = a.shared, b.shared
        kept.passages |= gone.passages
        for lock, declarable in gone.locks.items():
            kept.locks.setdefault(lock, declarable)
        parts = [shared.parts for shared in (kept, gone) if shared.parts]
        if kept.named != gone.named:
            kept.named = True
            for piece in (node for part in parts for node in part.nodes):
                self.mark(piece)
        kept.parts = parts[0] if parts else None
        if len(parts) == 2:
            self._unify_parts(*parts)

    def _bind(self, node: Node, parts: Parts) -> None:
        """Says what the axis of `node` is made of."""
        shared = self.shared(node)
        if shared.parts:
            self._unify_parts(shared.parts, parts)
        else:
            shared.parts = parts
            if shared.named or self.named(parts.nodes):
                shared.named = True
                for piece in parts.nodes:
                    self.mark(piece)

    def _unify_parts(self, first: Parts, second: Parts) -> None:
        if first.join is not second.join:
            raise Irreconcilable(f"a product {list(first.nodes)} that is also a concatenation {list(second.nodes)}")
        if first.join is Join.PRODUCT:
            self.unify(list(first.nodes), list(second.nodes))
        else:
            self._unify_concats(first.nodes, second.nodes)

    def _unify_concats(self, first: Sequence[Node], second: Sequence[Node]) -> None:
        """Cuts both at the boundaries of either."""
        if len(first) + len(second) > _MOST_PIECES:
            raise Irreconcilable("a concatenation of too many pieces")
        a, b = list(first)[::-1], list(second)[::-1]
        while a and b:
            x, y = a.pop(), b.pop()
            if x.size > y.size:
                (a, x), (b, y) = (b, y), (a, x)
            if x.size < y.size:
                self.mark(y)
                rest = self.cut([y], x.size, y.size)
                self.unify([x], self.cut([y], 0, x.size))
                b.append(self.join(rest))
            else:
                self.identify(x, y)

    # Structure

    def parts(self, node: Node) -> Parts | None:
        """What this occurrence is made of, None while it is whole."""
        if node.parts is None:
            shared = self.shared(node)
            if shared.parts:
                pieces = tuple(self.node(part.size, shared.named) for part in shared.parts.nodes)
                for piece, part in zip(pieces, shared.parts.nodes, strict=True):
                    self.identify(part, piece)
                node.parts = Parts(shared.parts.join, pieces)
        return node.parts

    def rebuild(self, wholes: Sequence[Node], members: Iterable[Node], where: str) -> None:
        """Says that the parts which some occurrences of an axis have are now those of all its `members`."""
        for node in members:
            if node not in wholes:
                node.parts = None
        shared = self.shared(wholes[0])
        shared.parts = None
        for node in wholes:
            assert node.parts is not None
            try:
                self._bind(node, node.parts)
            except Irreconcilable as conflict:
                self.lock([node], Lock(f"its structure is contradictory: {conflict}", where, "grow another axis"))

    def _divide(self, node: Node, join: Join, sizes: Sequence[int]) -> tuple[Node, ...]:
        """Gives a whole node parts of these sizes."""
        named = self.shared(node).named
        node.parts = Parts(join, tuple(self.node(size, named) for size in sizes))
        self.shared(node).parts = node.parts
        return node.parts.nodes

    def join(self, dim: Sequence[Node]) -> Node:
        """One node for a product."""
        return self._compose(Join.PRODUCT, _without_ones(dim) or list(dim))

    def concat(self, dims: Sequence[Dim]) -> Node:
        """One node for dims that are put one after the other."""
        return self._compose(Join.CONCAT, [self.join(dim) for dim in dims])

    def _compose(self, join: Join, nodes: list[Node]) -> Node:
        if len(nodes) == 1:
            return nodes[0]
        sizes = [node.size for node in nodes]
        made = self.node(prod(sizes) if join is Join.PRODUCT else sum(sizes))
        if nodes:
            made.parts = Parts(join, tuple(nodes))
            self._bind(made, made.parts)
        return made

    def split(self, node: Node, outer: int) -> tuple[Dim, Dim]:
        """The node as a product of `outer` blocks: the slow and the fast factors.

        Raises:
            Irreconcilable: the structure of the node does not allow it.
        """
        if outer == 1:
            return [], [node]
        if outer == node.size:
            return [node], []
        if outer == 0 or node.size % outer:
            raise Irreconcilable(f"{node.size} units in {outer} equal blocks")
        parts = self.parts(node)
        if parts is None:
            slow, fast = self._divide(node, Join.PRODUCT, [outer, node.size // outer])
            return [slow], [fast]
        if parts.join is Join.CONCAT:
            raise Irreconcilable(f"a concatenation {list(parts.nodes)} in {outer} equal blocks")
        return self.split_dim(parts.nodes, outer)

    def split_dim(self, dim: Sequence[Node], outer: int) -> tuple[Dim, Dim]:
        """As `split`, for a product of nodes."""
        slow: Dim = []
        for number, node in enumerate(dim):
            if outer == 1:
                return slow, list(dim[number:])
            if outer % node.size == 0:
                slow.append(node)
                outer //= node.size
                continue
            more, fast = self.split(node, outer)
            return slow + more, fast + list(dim[number + 1 :])
        if outer != 1:
            raise Irreconcilable(f"{list(dim)} in equal blocks")
        return slow, []

    def cut(self, dim: Dim, start: int, stop: int) -> Dim:
        """The units from `start` to `stop`. A slice of an axis that no tensor holds is a new axis.

        Raises:
            Irreconcilable: the slice goes across blocks of a product.
        """
        node = dim[0] if len(dim) == 1 else self.join(dim)
        if start == 0 and stop == node.size:
            return dim
        if stop - start <= 0 or not self.named([node]):
            return [self.node(stop - start)]
        parts = self.parts(node)
        if parts is None:
            bounds = sorted({0, start, stop, node.size})
            pieces = self._divide(node, Join.CONCAT, [b - a for a, b in pairwise(bounds)])
            return [pieces[bounds.index(start)]]
        if parts.join is Join.PRODUCT:
            block = _size(parts.nodes[1:])
            if start % block or stop % block:
                raise Irreconcilable(f"a slice {start}:{stop} across the blocks of {list(parts.nodes)}")
            return [*self.cut([parts.nodes[0]], start // block, stop // block), *parts.nodes[1:]]
        pieces_kept, offset = [], 0
        for piece in parts.nodes:
            low, high = max(start - offset, 0), min(stop - offset, piece.size)
            if low < high:
                pieces_kept.append([piece] if high - low == piece.size else self.cut([piece], low, high))
            offset += piece.size
        return pieces_kept[0] if len(pieces_kept) == 1 else [self.concat(pieces_kept)]


def _size(dim: Iterable[Node]) -> int:
    return prod(node.size for node in dim)


def _without_ones(dim: Iterable[Node]) -> Dim:
    return [node for node in dim if node.size != 1]
