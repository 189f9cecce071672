"""Layouts that the caller declares: they join what was traced, or contradict it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from growkit.axes.axis import Lock
from growkit.axes.expressions import Concat, Expression, Fixed, Leaf, Product, leaves
from growkit.axes.layouts import Layout
from growkit.axes.names import pattern_of
from growkit.axes.node import Dim, Irreconcilable, Node
from growkit.axes.reading import leaf_nodes, settle
from growkit.axes.union_find import Axes
from growkit.discovery.summary import layouts_by_serial
from growkit.discovery.trace import Tracer
from growkit.errors import LayoutError


def declare(tracer: Tracer, texts: Mapping[str, str]) -> dict[str, Node]:
    """Unifies declared layouts with the traced ones; gives the node of each label.

    A label that is a place of the traced run, such as `first.weight[0]`, is the axis at that place.

    Raises:
        LayoutError: no mapping of texts, an unknown tensor, a size that does not fit, or a contradiction.
    """
    layouts = _parsed(tracer, texts)
    if not layouts:
        return {}
    traced = {name: str(layout) for name, layout in layouts_by_serial(tracer).items()}
    places = _places(tracer)
    sizes = _label_sizes(layouts, tracer, {label: node.size for label, node in places.items()})
    labels = {
        label: places[label] if label in places else tracer.axes.node(sizes[label], named=True)
        for label in dict.fromkeys(axis for layout in layouts.values() for axis in layout.axes())
    }
    for name, layout in layouts.items():
        for d, (dim, expression) in enumerate(zip(tracer.held[name], layout.dims, strict=True)):
            try:
                _unify(tracer.axes, dim[0], expression, labels, f"{name}[{d}]")
            except Irreconcilable as conflict:
                raise _contradiction(name, layout, traced[name], str(conflict)) from conflict
    seen: dict[int, str] = {}
    for label, node in labels.items():
        other = seen.setdefault(tracer.axes.root(node).serial, label)
        if other != label:
            name = next(n for n, layout in layouts.items() if label in layout.axes())
            raise _contradiction(name, layouts[name], traced[name], f"{other} and {label} are one axis in the run")
    settle(tracer.axes)
    for name, layout in layouts.items():
        for dim, expression in zip(tracer.held[name], layout.dims, strict=True):
            _give_roles(tracer.axes, dim[0], expression, name, layout, traced[name])
    return labels


def declared_products(tracer: Tracer, texts: Mapping[str, str]) -> list[Node]:
    """The dims of tensors that are declared without any concatenation.

    Raises:
        LayoutError: no mapping of texts, or an unknown tensor.
    """
    return [
        dim[0]
        for name, layout in _parsed(tracer, texts).items()
        for dim, expression in zip(tracer.held[name], layout.dims, strict=True)
        if isinstance(expression, Product) and not any(isinstance(factor, Concat) for factor in expression.factors)
    ]


def open_locks(axes: Axes, labels: Mapping[str, Node]) -> None:
    """Drops the locks that a declared layout opens from the axes that have a label."""
    for node in labels.values():
        for leaf in leaf_nodes(axes, node):
            shared = axes.shared(leaf)
            shared.locks = {lock: declarable for lock, declarable in shared.locks.items() if not declarable}


def _expanded(texts: Mapping[str, str], tracer: Tracer) -> dict[str, str]:
    """One text for each tensor that a name or a glob stands for; its own name wins over a glob.

    Raises:
        LayoutError: a glob fits no tensor, or two globs say different things of one.
    """
    found: dict[str, str] = {}
    origin: dict[str, str] = {}
    for glob, text in texts.items():
        if "*" not in glob:
            continue
        pattern = pattern_of(glob)
        matching = [name for name in tracer.held if pattern.fullmatch(name)]
        if not matching:
            raise LayoutError(
                f"a layout for {glob!r}, which fits no tensor",
                "a parameter or buffer of the model, or a glob that fits some: " + ", ".join(tracer.held),
                "mend the name; '*' stands for one name between dots, '**' for any number",
            )
        for name in matching:
            if name not in texts and found.setdefault(name, text) != text:
                raise LayoutError(
                    f"two layouts for {name!r}: {found[name]!r} by {origin[name]!r}, {text!r} by {glob!r}",
                    "one layout for each tensor",
                    f"name {name!r} itself, which wins over globs, or mend one of them",
                )
            origin.setdefault(name, glob)
    return found | {name: text for name, text in texts.items() if "*" not in name}


def _parsed(tracer: Tracer, texts: Mapping[str, str]) -> dict[str, Layout]:
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        raise LayoutError(
            f"layouts={texts!r}",
            "layout texts by tensor name, such as {'mix.weight': 'stream:produces stream_in:consumes'}",
            "pass a mapping of texts",
        )
    return {name: _parse(name, text, tracer) for name, text in _expanded(texts, tracer).items()}


def _parse(name: str, text: str, tracer: Tracer) -> Layout:
    if name not in tracer.held:
        raise LayoutError(
            f"a layout for {name!r}",
            "a parameter or buffer of the model: " + ", ".join(tracer.held),
            "mend the name",
        )
    layout, dims = Layout.parse(text), tracer.held[name]
    if len(layout.dims) != len(dims):
        shape = tuple(dim[0].size for dim in dims)
        raise LayoutError(
            f"layout {text!r} with {len(layout.dims)} dims for {name!r} of shape {shape}",
            f"{len(dims)} dims",
            "describe each dim of the tensor once",
        )
    return layout


def _places(tracer: Tracer) -> dict[str, Node]:
    """The axes of the run by the places where tensors hold them, `q_proj.weight[0].1` in a composite dim."""
    found = {}
    for name, dims in tracer.held.items():
        for d, dim in enumerate(dims):
            nodes = leaf_nodes(tracer.axes, dim[0])
            for position, node in enumerate(nodes):
                found[f"{name}[{d}]" if len(nodes) == 1 else f"{name}[{d}].{position}"] = node
    return found


def _label_sizes(layouts: Mapping[str, Layout], tracer: Tracer, traced: Mapping[str, int]) -> dict[str, int]:
    """Sizes of the labels, from what was traced and from dims in which one label is unknown."""
    sizes = dict(traced)
    open_dims = [
        (name, expression, dim[0].size)
        for name, layout in layouts.items()
        for expression, dim in zip(layout.dims, tracer.held[name], strict=True)
    ]
    while open_dims:
        left = [item for item in open_dims if not _solve(item[1], item[2], sizes)]
        if len(left) == len(open_dims):
            name, expression, total = left[0]
            missing = sorted({leaf.axis for leaf in leaves(expression)} - sizes.keys())
            raise LayoutError(
                f"the layout of {name!r}: sizes of {', '.join(missing)} in a dim of {total} units",
                "labels whose sizes follow from the shapes",
                "declare another tensor in which one of them is alone",
            )
        open_dims = left
    for name, layout in layouts.items():
        shape = tuple(dim[0].size for dim in tracer.held[name])
        if layout.shape(sizes) != shape:
            raise LayoutError(
                f"layout {str(layout)!r} of {name!r} gives shape {layout.shape(sizes)}",
                f"its shape {shape}, with labels of the same size everywhere",
                "mend the layouts in which these labels occur",
            )
    return sizes


def _solve(expression: Expression, total: int, sizes: dict[str, int]) -> bool:
    """Finds the size of the only unknown label. False while there are several."""
    unknown = {leaf.axis for leaf in leaves(expression)} - sizes.keys()
    if len(unknown) > 1:
        return False
    match expression:
        case Leaf(axis):
            sizes.setdefault(axis, total)
        case Product(factors):
            known = [_known(f, sizes) for f in factors]
            rest = [f for f, size in zip(factors, known, strict=True) if size is None]
            if len(rest) == 1:
                return _solve(rest[0], total // max(prod(size for size in known if size), 1), sizes)
            return not rest
        case Concat(parts):
            known = [_known(p, sizes) for p in parts]
            rest = [p for p, size in zip(parts, known, strict=True) if size is None]
            share = (total - sum(size for size in known if size)) // max(len(rest), 1)
            return all(_solve(p, share, sizes) for p in rest)
    return True


def _known(expression: Expression, sizes: Mapping[str, int]) -> int | None:
    if any(leaf.axis not in sizes for leaf in leaves(expression)):
        return None
    return Layout((expression,)).shape(sizes)[0]


def _unify(axes: Axes, node: Node, expression: Expression, labels: Mapping[str, Node], place: str) -> None:
    if isinstance(expression, Leaf):
        axes.identify(node, labels[expression.axis])
    else:
        axes.unify([node], _dim(axes, expression, labels, place))


def _dim(axes: Axes, expression: Expression, labels: Mapping[str, Node], place: str) -> Dim:
    match expression:
        case Leaf(axis):
            return [labels[axis]]
        case Fixed(size):
            node = axes.node(size)
            axes.lock([node], Lock("its size is declared as a fixed number", place, "declare it as an axis"))
            return [node]
        case Product(factors):
            return [node for factor in factors for node in _dim(axes, factor, labels, place)]
        case Concat(parts):
            return [axes.concat([_dim(axes, part, labels, place) for part in parts])]


def _give_roles(axes: Axes, node: Node, expression: Expression, name: str, layout: Layout, traced: str) -> None:
    """Roles that the run did not show are taken from the declaration."""
    declared, nodes = list(leaves(expression)), leaf_nodes(axes, node)
    if len(declared) != len(nodes):
        declared = declared * len(nodes) if len(declared) == 1 else []
    for leaf, occurrence in zip(declared, nodes, strict=False):
        if leaf.role and occurrence.roles and leaf.role not in occurrence.roles:
            found = " and ".join(role.value for role in occurrence.roles)
            raise _contradiction(name, layout, traced, f"{leaf.axis} is declared {leaf.role.value}, traced {found}")
        if leaf.role:
            occurrence.roles = {leaf.role: None}


def _contradiction(name: str, layout: Layout, traced: str, reason: str) -> LayoutError:
    return LayoutError(
        f"the declared layout of {name!r} contradicts the traced run: {reason}\n"
        f"    declared: {layout}\n    traced:   {traced}",
        "a layout that agrees with what the model does",
        "mend the declared layout; axes of the run are shown by number",
    )
