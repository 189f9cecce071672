"""The axes of a Conformer as its blocks declare them, without a traced run.

A module declares `growkit_layouts` (parameter or buffer -> layout text), `growkit_passages` (axis -> kinds, each with
the path of the module that is passed, if it is not this one) and `growkit_sizes` (attribute -> the tensor dim that it
must equal). Axis names in them are local to the module, but for those in `SHARED`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod

from torch import Tensor, nn

from growkit.axes.axis import Axis, Block, Lock, Number, Occurrence, Passage
from growkit.axes.expressions import Expression, Leaf, Product, Role, leaves, without_roles
from growkit.axes.layouts import Layout
from growkit.axes.table import AxisTable
from growkit.errors import LayoutError
from growkit.nn.block import ConformerBlock
from growkit.nn.classifier import ConformerClassifier
from growkit.nn.contents import module_types, tensors_of
from growkit.nn.encoder import ConformerEncoder
from growkit.nn.positions import RelativePositions

SHARED = frozenset({"input", "stream", "position", "output"})
FIXED = {
    "position": "it is contracted with a table that the forward pass makes",
    "kernel": "it counts the places of a convolution kernel",
}
"""Axes that cannot grow, and why."""
KINDS = {"value_dim": "head_dim", **dict.fromkeys(FIXED, "fixed")}
"""Kind of each axis whose local name is not its kind."""

_TORCH_SIZES: dict[type[nn.Module], tuple[tuple[str, int | None, int, bool], ...]] = {
    nn.Linear: (("out_features", None, 0, False), ("in_features", None, 1, False)),
    nn.LayerNorm: (("normalized_shape", 0, 0, True),),
    nn.BatchNorm1d: (("num_features", None, 0, False),),
    nn.Conv1d: (("in_channels", None, 0, False), ("out_channels", None, 0, False), ("groups", None, 0, True)),
}
"""Attribute, index in it, dim of the weight that it equals, whether the forward pass reads it; convs are depthwise."""
_READ = frozenset({"num_heads"})
_PLACE = re.compile(r"(?P<tensor>.+)\[(?P<dim>\d+)\](\.(?P<factor>\d+))?")


def declared_layouts(model: ConformerEncoder | ConformerClassifier) -> dict[str, str]:
    """The layout text of every parameter and buffer, over the axis names of `declared_table`.

    Raises:
        LayoutError: a parameter or buffer that no block declares, or of another shape than declared.
    """
    return {name: str(layout) for name, layout in declared_table(model).layouts.items()}


def declared_table(model: ConformerEncoder | ConformerClassifier) -> AxisTable:
    """The axis table that `growkit.discover` finds for the model.

    Raises:
        LayoutError: a parameter or buffer that no block declares, or of another shape than declared.
    """
    layouts = dict(_layouts(model))
    tensors = tensors_of(model)
    if undeclared := sorted(tensors.keys() ^ layouts.keys()):
        raise LayoutError(
            f"tensors without a declared layout: {', '.join(undeclared)}",
            "the parameters and buffers of growkit's own blocks",
            "use growkit.discover for a model with other modules in it",
        )
    sizes = _sizes(layouts, tensors)
    occurrences = _occurrences(layouts)
    names = {key: _name(found) for key, found in occurrences.items()}
    layouts = {tensor: layout.rename(names) for tensor, layout in layouts.items()}
    passages = _passages(model)
    order = {tensor: place for place, tensor in enumerate(tensors)}
    axes = (
        Axis(names[key], sizes[key], _kind(key), tuple(found), tuple(passages.get(key, ())), _locks(key, found))
        for key, found in occurrences.items()
    )
    return AxisTable(
        axes=tuple(sorted(axes, key=lambda axis: order[axis.name.partition("[")[0]])),
        layouts={name: layouts[name] for name in tensors},
        numbers=tuple(_numbers(model, layouts, names)),
        modules=module_types(model),
        blocks=tuple(_blocks(model, names["stream"], layouts)),
    )


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _key(path: str, axis: str) -> str:
    return axis if axis in SHARED else _join(path, axis)


def _kind(key: str) -> str:
    axis = key.rpartition(".")[2]
    return KINDS.get(axis, axis)


def _locks(key: str, occurrences: list[Occurrence]) -> tuple[Lock, ...]:
    reason = FIXED.get(key.rpartition(".")[2])
    return (Lock(reason, occurrences[0].tensor, "grow another axis"),) if reason else ()


def _layouts(model: nn.Module) -> Iterator[tuple[str, Layout]]:
    """Layouts over keys: a shared axis by its name, another by the path of its module and its name."""
    for path, module in model.named_modules():
        for local, text in getattr(module, "growkit_layouts", {}).items():
            owner, _, name = local.rpartition(".")
            if getattr(module.get_submodule(owner), name, None) is not None:
                layout = Layout.parse(text)
                yield _join(path, local), layout.rename({axis: _key(path, axis) for axis in layout.axes()})


def _sizes(layouts: Mapping[str, Layout], tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Size of each axis: first from the dims that are one axis, then from products with one factor left."""
    dims = [
        (tensor, expression, entries)
        for tensor, layout in layouts.items()
        for expression, entries in zip(layout.dims, tensors[tensor].shape, strict=True)
    ]
    sizes: dict[str, int] = {
        expression.axis: entries for _, expression, entries in dims if isinstance(expression, Leaf)
    }
    for _, expression, entries in dims:
        if isinstance(expression, Product):
            unknown = [leaf.axis for leaf in leaves(expression) if leaf.axis not in sizes]
            if len(unknown) == 1:
                sizes[unknown[0]] = entries // prod(sizes.get(leaf.axis, 1) for leaf in leaves(expression))
    for tensor, layout in layouts.items():
        if layout.shape(sizes) != tuple(tensors[tensor].shape):
            raise LayoutError(
                f"{tensor} of shape {tuple(tensors[tensor].shape)}",
                f"{layout.shape(sizes)}, that is {str(layout)!r} at the sizes of the other tensors",
                "use growkit.discover for a model whose blocks were changed",
            )
    return sizes


def _occurrences(layouts: Mapping[str, Layout]) -> dict[str, list[Occurrence]]:
    found: dict[str, list[Occurrence]] = {}
    for tensor, layout in layouts.items():
        for dim, expression in enumerate(layout.dims):
            whole = isinstance(expression, Leaf)
            for position, leaf in enumerate(leaves(expression)):
                place = Occurrence(tensor, dim, position, None if whole else position, leaf.role)
                found.setdefault(leaf.axis, []).append(place)
    return found


def _name(occurrences: list[Occurrence]) -> str:
    """The dim that first produces the axis; that of an input, which nothing produces, is the first that reads it."""
    return str(next((o for o in occurrences if o.role is Role.PRODUCES), occurrences[0]))


def _passages(model: nn.Module) -> dict[str, list[Passage]]:
    found: dict[str, list[Passage]] = {}
    for path, module in model.named_modules():
        for axis, kinds in getattr(module, "growkit_passages", {}).items():
            for kind, _, where in (text.partition(" ") for text in kinds):
                if not isinstance(module.get_submodule(where), nn.Identity):
                    found.setdefault(_key(path, axis), []).append(Passage(kind, _join(path, where) if where else path))
    if isinstance(model, ConformerEncoder):
        found.setdefault("stream", []).append(Passage("output", ""))
    return found


def _blocks(model: nn.Module, stream: str, layouts: Mapping[str, Layout]) -> Iterator[Block]:
    for path, module in model.named_modules():
        if isinstance(module, ConformerBlock):
            container, _, index = path.rpartition(".")
            tail = () if isinstance(module.final_norm, nn.Identity) else ("final_norm",)
            writers = tuple(
                name
                for name, _ in module.named_parameters()
                if any(leaf.axis == stream and leaf.role is Role.PRODUCES for leaf in layouts[_join(path, name)])
            )
            yield Block(
                container, int(index), (stream,), residual=True, tail=tail, silenced=dict.fromkeys(writers, 0.0)
            )


def _numbers(model: nn.Module, layouts: Mapping[str, Layout], names: Mapping[str, str]) -> Iterator[Number]:
    for path, module in model.named_modules():
        for attribute, place in getattr(module, "growkit_sizes", {}).items():
            size = _dim(layouts, _join(path, place))
            yield Number(_join(path, attribute), None, getattr(module, attribute), (size,), attribute in _READ)
        for attribute, index, dim, read in _TORCH_SIZES.get(type(module), ()):
            value = getattr(module, attribute)
            size = without_roles(layouts[_join(path, "weight")].dims[dim])
            yield Number(_join(path, attribute), index, value if index is None else value[index], (size,), read)
        if isinstance(module, RelativePositions) and "position" in names:
            yield Number(_join(path, "dim"), None, module.dim, (Leaf(names["position"]),), True)


def _dim(layouts: Mapping[str, Layout], place: str) -> Expression:
    """The size at a place such as `linear1.weight[0]` or `query.weight[0].0`."""
    match = _PLACE.fullmatch(place)
    assert match is not None
    expression = without_roles(layouts[match["tensor"]].dims[int(match["dim"])])
    if match["factor"] is None:
        return expression
    assert isinstance(expression, Product)
    return expression.factors[int(match["factor"])]
