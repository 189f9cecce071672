"""Products of which every block is picked by its number: `(3 dims)`, taken apart, is `[dims|dims|dims]`.

A projection to queries, keys and values is often viewed as three blocks of equal size, which `select` or `unbind` then
takes apart. The view alone would make one axis of them, so that the dims of values could not differ from those of keys.
So what is picked gets nodes of its own, block by block. After the run it is decided: blocks that turned out to be the
same axes are tied again, and the dim stays the product that it looked like; others make it a concatenation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from growkit.axes.node import Dim, Join, Node, Parts
from growkit.axes.union_find import Axes

BY_NUMBER = "its units are picked by their number"
PICKED = "picked:"
"""Start of the kind of a passage in which one unit is picked; its number follows."""


@dataclass
class _Stack:
    """One occurrence of a product: `whole` is `(before number after)`, and units of `number` are picked."""

    whole: Node
    number: Node
    where: str
    picked: dict[int, dict[Node, Node]] = field(default_factory=dict)
    """By unit, what stands for a factor behind `number` in its block."""

    @property
    def place(self) -> int:
        """Where `number` stands among the factors."""
        assert self.whole.parts is not None
        return self.whole.parts.nodes.index(self.number)

    def factors(self) -> Iterator[Node]:
        """The factors behind `number`, and what they are made of in turn."""
        assert self.whole.parts is not None
        waiting = list(self.whole.parts.nodes[self.place + 1 :])
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.parts.nodes if node.parts and node.parts.join is Join.PRODUCT else ()

    def block(self, unit: int, node: Node) -> Dim | None:
        """What stands for a factor in the block of a unit; None if not all of it was picked."""
        own = self.picked[unit].get(node)
        if own is not None:
            return [own]
        if node.parts is None or node.parts.join is not Join.PRODUCT:
            return None
        inner = [self.block(unit, part) for part in node.parts.nodes]
        return [n for dim in inner for n in dim or ()] if None not in inner else None

    def blocks(self) -> list[Dim] | None:
        """The factors behind `number`, unit by unit; None if not all of all units were picked."""
        assert self.whole.parts is not None
        if set(self.picked) != set(range(self.number.size)):
            return None
        behind = self.whole.parts.nodes[self.place + 1 :]
        found = [[self.block(unit, node) for node in behind] for unit in range(self.number.size)]
        if any(dim is None for dims in found for dim in dims):
            return None
        return [[node for dim in dims for node in dim or ()] for dims in found]


class Stacks:
    """What was picked in one run."""

    def __init__(self) -> None:
        self._stacks: dict[Node, _Stack] = {}

    def pick(self, axes: Axes, dims: Sequence[Dim], d: int, unit: int, where: str) -> list[Dim]:
        """The other dims of a tensor of which one unit of the dim `d` is picked."""
        left = [*dims[:d], *dims[d + 1 :]]
        stack = self._of(axes, dims[d], where)
        if stack is None:
            return left
        inner, own = set(stack.factors()), stack.picked.setdefault(unit, {})
        for node in [n for dim in left for n in dim if n in inner and n not in own]:
            own[node] = axes.node(node.size, named=True)
        return [[own.get(node, node) for node in dim] for dim in left]

    def _of(self, axes: Axes, dim: Dim, where: str) -> _Stack | None:
        if len(dim) != 1 or not axes.named(dim):
            return None
        (number,) = dim
        if number not in self._stacks:
            product = (n for n in axes.nodes if n.parts and n.parts.join is Join.PRODUCT and number in n.parts.nodes)
            whole = next(product, None)
            if whole is None:
                return None
            self._stacks[number] = _Stack(whole, number, where)
        return self._stacks[number]

    def settle(self, axes: Axes, products: Collection[Node]) -> list[tuple[list[Dim], str]]:
        """Decides which products are concatenations, not those that are declared; gives the dims of equal blocks."""
        members: dict[Node, list[Node]] = {}
        for node in axes.nodes:
            members.setdefault(axes.root(node), []).append(node)
        kept = {axes.root(node) for node in products}
        groups: dict[Node, list[_Stack]] = {}
        for stack in self._stacks.values():
            groups.setdefault(axes.root(stack.whole), []).append(stack)
        equal = []
        for root, stacks in groups.items():
            if root not in kept and _differ(axes, stacks) and _only_picked(axes, stacks, members):
                for stack in stacks:
                    _take_apart(axes, stack)
                    equal += [([[own[node]] for own in stack.picked.values()], stack.where) for node in stack.picked[0]]
                axes.rebuild([stack.whole for stack in stacks], members[root], stacks[0].where)
            else:
                for stack in stacks:
                    for own in stack.picked.values():
                        for node, made in own.items():
                            axes.tie([node], [made], stack.where)
        return equal


def _differ(axes: Axes, stacks: Sequence[_Stack]) -> bool:
    """Whether all blocks were picked whole, and some are not the same axes."""
    return all(stack.blocks() is not None for stack in stacks) and any(
        len({axes.root(own[node]) for own in stack.picked.values()}) > 1 for stack in stacks for node in stack.picked[0]
    )


def _only_picked(axes: Axes, stacks: Sequence[_Stack], members: dict[Node, list[Node]]) -> bool:
    """Whether the factors were used in no other way: nothing is tied to them, and they pass nothing."""
    wholes = members[axes.root(stacks[0].whole)]
    inside: set[Node] = set()
    waiting = list(wholes)
    while waiting:
        node = waiting.pop()
        waiting += [part for part in (node.parts.nodes if node.parts else ()) if part not in inside]
        inside |= set(node.parts.nodes if node.parts else ())
    for stack in stacks:
        whole = {node for own in stack.picked.values() for node in own}
        for node in (stack.number, *stack.factors()):
            shared = axes.shared(node)
            if not inside.issuperset(members[axes.root(node)]) or (node in whole and shared.parts):
                return False
            picks = node is stack.number
            if any(not (picks and passage.kind.startswith(PICKED)) for passage in shared.passages):
                return False
            if any(not (picks and lock.reason == BY_NUMBER) for lock in shared.locks):
                return False
    return True


def _take_apart(axes: Axes, stack: _Stack) -> None:
    """Makes a product a concatenation; its factors stand for those of any block from now on."""
    blocks, parts = stack.blocks(), stack.whole.parts
    assert blocks is not None
    assert parts is not None
    before, made = parts.nodes[: stack.place], axes.concat(blocks)
    for node in stack.picked[0]:
        node.parts = Parts(Join.STACK, tuple(stack.picked[unit][node] for unit in range(stack.number.size)))
    assert made.parts is not None
    stack.whole.parts = Parts(Join.PRODUCT, (*before, made)) if before else made.parts
