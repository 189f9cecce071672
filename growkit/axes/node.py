"""Occurrences of axes: the nodes of the union-find.

A node stands for one occurrence of an axis: a dim of a parameter, or a factor or part of one. Roles
belong to the node, so that an axis that occurs twice in one tensor keeps them apart. What all
occurrences of an axis have in common is kept once, in `Shared`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from growkit.axes.axis import Lock, Passage
from growkit.axes.expressions import Role


class Irreconcilable(Exception):
    """Two structures of one dimension that cannot both hold."""


class Join(Enum):
    """How the parts of a dimension make it up."""

    PRODUCT = "product"
    CONCAT = "concat"
    STACK = "stack"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a node is made of: row-major factors, pieces one after the other, or what it is by turns.

    A stack is one of its parts, which one the unit of another dim says; no tensor of the model has such a dim.
    """

    join: Join
    nodes: tuple[Node, ...]


@dataclass(slots=True, eq=False)
class Shared:
    """What all occurrences of one axis have in common."""

    parts: Parts | None = None
    named: bool = False
    """Whether a parameter or buffer holds it, as a whole or as a piece."""
    passages: dict[Passage, None] = field(default_factory=dict)
    locks: dict[Lock, bool] = field(default_factory=dict)
    """Each lock, and whether a declared layout opens it."""


class Node:
    """One occurrence of an axis of `size` units."""

    __slots__ = ("parent", "parts", "roles", "serial", "shared", "size")

    def __init__(self, size: int, serial: int, named: bool):
        self.size, self.serial = size, serial
        self.parent: Node = self
        self.parts: Parts | None = None
        self.roles: dict[Role, None] = {}
        self.shared = Shared(named=named)

    def __repr__(self) -> str:
        return f"#{self.serial}:{self.size}"


Dim = list[Node]
"""One dimension: row-major product of nodes. Dimensions of size 1 may be empty."""
