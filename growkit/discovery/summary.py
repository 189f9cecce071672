"""From the traced run to the axis table: layouts, kinds, names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from growkit.axes.axis import Axis, Correction, Lock, Occurrence
from growkit.axes.expressions import Expression, Fixed, Leaf, Product, Role, leaves
from growkit.axes.layouts import Layout
from growkit.axes.node import Node
from growkit.axes.reading import BESIDE_OTHERS, expression, leaf_nodes
from growkit.axes.union_find import Axes
from growkit.discovery.call import DECLARE, OTHERS
from growkit.discovery.stacks import PICKED
from growkit.discovery.trace import Tracer
from growkit.nn.contents import Contents

_LOOKED_UP = {"lookup", f"lookup{BESIDE_OTHERS}"}
_CONTRACTED = {"contracted_" + over for over in ("activations", "queries", "part", "alike", "tempered")}
_OF_CHANNELS = {"batch_norm", "depthwise_conv", "grouped_conv", "group_norm", "norm_groups"}
_BOTH = frozenset({Role.PRODUCES, Role.CONSUMES})
_TIED = Lock(
    "one tensor produces and consumes it, and what it reads there is scaled by no parameter of this reading alone",
    "",
    "let a norm with a gain, or a linear layer, come right before the tied tensor reads it; or grow another axis",
)
_PLACES = Lock(
    "a table has an entry for each place of the data along it: its size is that of the data",
    "",
    "build the model for more places, or grow another axis",
)
_SCRIPTED = Lock("a scripted module holds it, which cannot be changed", "", "grow before torch.jit.script")
UNREAD = "not read in the traced run"
"""Reason of the lock on axes of tensors that the run never read."""
_UNREAD = Lock(UNREAD, "", "pass example inputs that use it, or declare its layout")


def layouts_by_serial(tracer: Tracer, vouched: Collection[int] = ()) -> dict[str, Layout]:
    """Layouts of all parameters and buffers; axes are called by the serial number of their root."""
    return {
        name: Layout(tuple(_expression(tracer.axes, dim[0], vouched) for dim in dims))
        for name, dims in tracer.held.items()
    }


def _expression(axes: Axes, node: Node, vouched: Collection[int]) -> Expression:
    """A dim of one unit is an axis only if something says so: otherwise it is there for broadcasting."""
    if node.size == 1 and not node.roles and axes.root(node).serial not in vouched:
        return Fixed(1)
    return expression(axes, node)


def lock_doubtful(contents: Contents, tracer: Tracer, vouched: Collection[int]) -> None:
    """Locks the axes about which the run says too little."""
    axes = tracer.axes
    weights = contents.parameters
    scripted = tuple(f"{p}." if p else "" for p, m in contents.modules.items() if isinstance(m, torch.jit.ScriptModule))
    for name, dims in tracer.held.items():
        for d, dim in enumerate(dims):
            place = f"{name}[{d}]"
            for leaf in leaf_nodes(axes, dim[0]):
                shared = axes.shared(leaf)
                is_vouched = axes.root(leaf).serial in vouched
                if name.startswith(scripted):
                    shared.locks.setdefault(Lock(_SCRIPTED.reason, place, _SCRIPTED.next_step), False)
                if name not in tracer.read and not is_vouched:
                    shared.locks.setdefault(Lock(_UNREAD.reason, name, _UNREAD.next_step), True)
                elif leaf.roles.keys() == _BOTH:
                    shared.locks.setdefault(Lock(_TIED.reason, place, _TIED.next_step), False)
                elif len(leaf.roles) > 1:
                    found = " and ".join(sorted(role.value for role in leaf.roles))
                    shared.locks.setdefault(Lock(f"one tensor {found} it", place, OTHERS), False)
                elif leaf.size == 1 and leaf.roles and not is_vouched:
                    reason = "an axis of one unit cannot be told from a dimension for broadcasting"
                    shared.locks.setdefault(Lock(reason, place, DECLARE), True)
                elif name in weights and not leaf.roles and not shared.locks and leaf.size != 1:
                    shared.locks.setdefault(Lock("its role in this parameter is not known", place, DECLARE), True)


def build_axes(
    tracer: Tracer,
    layouts: Mapping[str, Layout],
    labels: Mapping[int, str],
    corrected: Mapping[int, tuple[Correction, ...]],
    silent: Mapping[int, tuple[Occurrence, ...]],
) -> tuple[list[Axis], dict[str, str]]:
    """The axes, in the order in which tensors hold them, and their names by serial number.

    `corrected`, `silent`: what `corrections` gives.
    """
    occurrences: dict[str, list[Occurrence]] = {}
    consuming: set[str] = set()
    for tensor, layout in layouts.items():
        for d, dim in enumerate(layout.dims):
            whole = isinstance(dim, Leaf)
            for position, leaf in enumerate(leaves(dim)):
                factor = None if whole else position
                occurrence = Occurrence(tensor, d, position, factor, leaf.role)
                occurrences.setdefault(leaf.axis, []).append(occurrence)
                if leaf.role is Role.CONSUMES:
                    consuming.add(tensor)
    names = {serial: labels.get(int(serial)) or _name(found, consuming) for serial, found in occurrences.items()}
    nodes = {serial: tracer.axes.nodes[int(serial)] for serial in occurrences}
    kinds = {s: {passage.kind for passage in tracer.axes.shared(node).passages} for s, node in nodes.items()}
    heads = {serial for serial, passed in kinds.items() if "per_head" in passed}
    beside_heads = {
        leaf.axis
        for layout in layouts.values()
        for dim in layout.dims
        if isinstance(dim, Product) and heads & {leaf.axis for leaf in leaves(dim)}
        for leaf in leaves(dim)
    }
    made = []
    for serial, found in occurrences.items():
        node, passed = nodes[serial], kinds[serial]
        shared = tracer.axes.shared(node)
        structural = all(f"{PICKED}{unit}" in passed for unit in range(node.size))
        kind = "fixed" if structural else _kind(passed, found, layouts, serial in heads, serial in beside_heads)
        locks = list(shared.locks)
        if kind == "fixed" and _of_places(found, layouts):
            locks.insert(0, Lock(_PLACES.reason, str(found[0]), _PLACES.next_step))
        elif kind == "fixed" and not locks:
            locks = [Lock("no parameter produces it", str(found[0]), OTHERS)]
        axis = Axis(
            names[serial],
            node.size,
            kind,
            tuple(found),
            tuple(shared.passages),
            tuple(locks),
            corrections=corrected.get(int(serial), ()),
            silent=silent.get(int(serial), ()),
        )
        made.append(axis)
    return made, names


def _name(found: list[Occurrence], consuming: Collection[str]) -> str:
    """The dim that first produces the axis from another one; a bias may come before it in module order."""
    produced = [o for o in found if o.role is Role.PRODUCES]
    return str(next((o for o in produced if o.tensor in consuming), (produced or found)[0]))


def _of_places(found: Sequence[Occurrence], layouts: Mapping[str, Layout]) -> bool:
    """Whether only tables hold the axis, each with features of its own along another dim, and nothing reads it.

    As in a table of positions, or of class and mask tokens: what they are added to or lie beside makes their number.
    """
    return all(
        o.role is Role.PRODUCES
        and not any(leaf.role is Role.CONSUMES for leaf in layouts[o.tensor])
        and any(
            leaf.role is Role.PRODUCES
            for d, dim in enumerate(layouts[o.tensor].dims)
            for leaf in leaves(dim)
            if d != o.dim
        )
        for o in found
    )


def _kind(
    passages: set[str], found: list[Occurrence], layouts: Mapping[str, Layout], head: bool, beside_head: bool
) -> str:
    roles = {o.role for o in found}
    if "input" in passages:
        return "input"
    if Role.PRODUCES not in roles:
        return "fixed"
    if passages & _LOOKED_UP:
        return "vocabulary"
    if "output" in passages and Role.CONSUMES not in roles:
        return "output"
    if _of_places(found, layouts):
        return "fixed"
    if head:
        return "heads"
    if (beside_head and Role.CONSUMES in roles) or passages & _CONTRACTED:
        return "head_dim"
    if "residual" in passages:
        return "stream"
    convolved = any(o.role is Role.PRODUCES and len(layouts[o.tensor].dims) > 2 and o.dim < 2 for o in found)
    return "channels" if convolved or passages & _OF_CHANNELS else "hidden"
