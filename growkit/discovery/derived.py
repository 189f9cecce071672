"""Tensors that are computed from parameters before they are used: their roles go back to the parameters.

`W + B @ A` is used as one weight, whose rows produce an axis: then those of W and of B produce it. Of a product,
`mask * W`, one factor takes the role with its scales and what new units start as; the other factors are gains: copied
with their units. What is contracted, the rank of `B @ A`, is an axis like a hidden one: A produces it, B consumes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from growkit.axes.axis import Lock
from growkit.axes.expressions import Role
from growkit.axes.node import Dim, Node
from growkit.axes.reading import leaf_nodes
from growkit.axes.union_find import Axes

TERM = "term"
"""The result is linear in it, unit by unit, and zero where all terms are zero."""
FACTOR = "factor"
"""Multiplied with something that takes the role along this dim."""
SHIFTED = "shifted"
"""Something is added that has no value of its own for each unit."""

_NEXT = "grow another axis"
_UNITS = (Role.PRODUCES, Role.BIAS)


@dataclass(frozen=True, slots=True)
class _Link:
    """A dim of a computed tensor, and the same dim of what it is computed from; `through`: one of these, or an op."""

    result: Node
    source: tuple[Node, ...]
    through: str
    where: str


@dataclass
class Normed:
    """A norm of a parameter over `over`; `lengths`: the tensor that it is multiplied with, 0 if there is none.

    After `Derived.hand_back`: `length`, an axis of the lengths, and `counts`: how often each axis occurs in the norm,
    produced, consumed and copied.
    """

    over: tuple[Dim, ...]
    where: str
    lengths: int = 0
    kept: Sequence[Node] = ()
    length: Node | None = None
    counts: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def scaled(self) -> bool:
        """Whether there are lengths."""
        return bool(self.lengths)


@dataclass
class Derived:
    """What one run computed from parameters alone."""

    links: list[_Link] = field(default_factory=list)
    contracted: list[tuple[Dim, str]] = field(default_factory=list)
    normed: list[Normed] = field(default_factory=list)

    def link(self, axes: Axes, sources: Sequence[tuple[Dim, str]], where: str) -> Dim:
        """A new dim that is computed from others, which are one axis: how it depends on each stands beside it."""
        first = [node for node in sources[0][0] if node.size != 1]
        if not first:
            return []
        size = 1
        for node in first:
            size *= node.size
        made = axes.node(size)
        axes.tie([made], first, where)
        self.links += [_Link(made, tuple(dim), through, where) for dim, through in sources]
        return [made]

    def hand_back(self, axes: Axes) -> None:
        """Gives the roles of what was computed to what it was computed from. After `settle`."""
        inner = {id(leaf): (leaf, where) for dim, where in self.contracted for leaf in _leaves(axes, dim)}
        for link in reversed(self.links):  # what is computed last was used last: its roles are complete
            pairs = zip(_leaves(axes, [link.result]), _leaves(axes, link.source), strict=False)
            for result, source in pairs:
                if id(result) in inner:
                    inner[id(source)] = (source, link.where)
                for role in result.roles:
                    _hand(axes, source, role, link)
        for norm in self.normed:
            _note_norm(axes, norm)
        for leaf, where in inner.values():
            if len(leaf.roles) > 1:
                axes.lock(
                    [leaf], Lock("a parameter that is contracted with another one has a second use", where, _NEXT)
                )
        for link in self.links:
            for leaf in _leaves(axes, [link.result]):
                leaf.roles = {}
        for node in {id(n): n for link in self.links for n in _leaves(axes, link.source)}.values():
            if set(node.roles) == {Role.PRODUCES, Role.GAIN}:  # the same for copies that are not scaled
                node.roles = {Role.PRODUCES: None}
                axes.note([node], "two_roles", next(link.where for link in self.links))


def _leaves(axes: Axes, dim: Sequence[Node]) -> list[Node]:
    return [leaf for node in dim for leaf in leaf_nodes(axes, node) if leaf.size != 1]


def _hand(axes: Axes, source: Node, role: Role, link: _Link) -> None:
    given = role
    match link.through, role:
        case _, Role.MEAN | Role.VARIANCE:
            axes.lock([source], Lock("running statistics are computed from other tensors", link.where, _NEXT))
        case ("term", _):
            pass
        case ("factor", _):
            given = Role.GAIN
        case ("shifted", Role.CONSUMES):
            reason = "a parameter gets something added before activations are contracted with it"
            axes.lock([source], Lock(reason, link.where, _NEXT))
        case ("shifted", Role.PRODUCES | Role.BIAS):
            axes.note([source], "shifted", link.where)
        case ("shifted", _):
            pass
        case (op, Role.CONSUMES):
            axes.note([source], f"consumed:{op}", link.where)
        case (op, Role.GAIN):
            axes.note([source], f"gain:{op}", link.where)
        case (op, _):
            axes.note([source], f"pointwise:{op}", link.where)
    source.roles[given] = None


def _note_norm(axes: Axes, norm: Normed) -> None:
    """Says of each axis in a norm of a parameter how often it occurs there, and in which roles."""
    norm.length = next(iter(_leaves(axes, norm.kept)), None)
    for leaf in (leaf for dim in norm.over for leaf in _leaves(axes, dim)):
        serial, place = axes.root(leaf).serial, _place(leaf)
        counted = norm.counts.get(serial, (0, 0, 0))
        norm.counts[serial] = tuple(n + (i == place) for i, n in enumerate(counted))  # type: ignore[assignment]
    kind = "scaled_weight_norm" if norm.scaled else "weight_norm"
    for serial, counted in norm.counts.items():
        axes.note([axes.nodes[serial]], f"{kind} " + " ".join(map(str, counted)), norm.where)


def _place(leaf: Node) -> int:
    role = next(iter(leaf.roles), None)
    return 0 if role in _UNITS else 1 if role is Role.CONSUMES else 2
