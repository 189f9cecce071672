"""Ints that modules keep for the reader or for printing, and that must stay true."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import nn

from growkit.axes.axis import Number
from growkit.axes.expressions import Concat, Expression, Product, Role, leaves, size, without_roles
from growkit.axes.layouts import Layout
from growkit.discovery.counts import is_count
from growkit.errors import LayoutError
from growkit.nn.contents import Contents, qualified_name


@dataclass(frozen=True)
class _Place:
    """A dim of a parameter, relative to a module; `factor`, `role`: only a part of it."""

    tensor: str
    dim: int
    factor: int | None
    role: str | None


_DIM = re.compile(r"(?P<tensor>[\w.]+)\[(?P<dim>\d+)\](\.(?P<factor>\d+)|:(?P<role>\w+))?")


def _convolution(module: Any) -> dict[str, str]:
    first, second = ("in_channels", "out_channels") if module.transposed else ("out_channels", "in_channels")
    return {first: "weight[0]", second: "weight[1]" if module.groups == 1 else "weight[0]:gain weight[1]"}


def _attention(module: Any) -> dict[str, str]:
    packed = module.in_proj_weight is not None
    return {
        "embed_dim": "out_proj.weight[0]", "num_heads": "out_proj.weight[1].0", "head_dim": "out_proj.weight[1].1",
        "kdim": "in_proj_weight[1]" if packed else "k_proj_weight[1]",
        "vdim": "in_proj_weight[1]" if packed else "v_proj_weight[1]",
    }  # fmt: skip


def _recurrent(module: Any) -> dict[str, str]:
    projected = {"hidden_size": "weight_hr_l0[1]", "proj_size": "weight_hr_l0[0]"}
    return {"input_size": "weight_ih_l0[1]"} | (projected if module.proj_size else {"hidden_size": "weight_hh_l0[1]"})


_COMPUTED = (
    "{0}parametrizations.{1}.original1", "{0}parametrizations.{1}.original", "{0}{1}_v",
)  # fmt: skip
"""Where torch keeps a parameter that a parametrization or a weight norm computes: its direction, or itself."""

KEPT: dict[type[nn.Module], Callable[[Any], dict[str, str]]] = {
    nn.Linear: lambda module: {"out_features": "weight[0]", "in_features": "weight[1]"},
    nn.modules.conv._ConvNd: _convolution,
    nn.modules.batchnorm._NormBase: lambda module: {"num_features": "weight[0]"},
    nn.GroupNorm: lambda module: {"num_channels": "weight[0]"},
    nn.Embedding: lambda module: {"num_embeddings": "weight[0]", "embedding_dim": "weight[1]"},
    nn.Bilinear: lambda module: {
        "in1_features": "weight[1]", "in2_features": "weight[2]", "out_features": "weight[0]",
    },
    nn.PReLU: lambda module: {"num_parameters": "weight[0]"},
    nn.MultiheadAttention: _attention,
    nn.Transformer: lambda module: {
        "d_model": "encoder.norm.weight[0]", "nhead": "encoder.layers.0.self_attn.out_proj.weight[1].0",
    },
    nn.RNNBase: _recurrent,
    nn.RNNCellBase: lambda module: {"input_size": "weight_ih[1]", "hidden_size": "weight_hh[1]"},
}  # fmt: skip
"""What torch's own modules keep, by type: attribute -> dim of a parameter, relative to the module."""


def _around_linear(module: Any) -> dict[str, str]:
    linear = isinstance(module.base_layer, nn.Linear)
    return {"out_features": "base_layer.weight[0]", "in_features": "base_layer.weight[1]"} if linear else {}


FOREIGN: dict[str, Callable[[Any], dict[str, str]]] = {
    "peft.tuners.lora.layer.LoraLayer": _around_linear,
    "transformers.pytorch_utils.Conv1D": lambda module: {"nf": "weight[1]", "nx": "weight[0]"},
}
"""The same for modules of other libraries, by qualified name of the type."""


def kept_numbers(contents: Contents, layouts: Mapping[str, Layout], sizes: Mapping[str, int]) -> Iterator[Number]:
    """The numbers that `KEPT`, `FOREIGN` and the class attribute `growkit_sizes` name.

    `growkit_sizes: ClassVar[dict[str, str]]` of a module class maps an attribute to `"path.to.weight[dim]"` or
    `"path.to.weight[dim].factor"`, relative to the module; what counts blocks is left to `growkit.discovery.counts`.

    Raises:
        LayoutError: an entry of `growkit_sizes` that is not the size of what it names.
    """
    layouts = {**layouts, **{name: layouts[first] for name, first in contents.aliases().items() if first in layouts}}
    kept_by = {kind: _kept_by(kind) for kind in {type(module) for module in contents.modules.values()}}
    for path, module in contents.modules.items():
        prefix = f"{path}." if path else ""
        for kept in kept_by[type(module)]:
            for attribute, place in kept(module).items():
                expression = _at(prefix, place, layouts)
                kept_value = getattr(module, attribute)
                if expression is not None and size(expression, sizes) == kept_value:
                    yield Number(prefix + attribute, None, kept_value, (expression,), read=False)
        for attribute, place in getattr(type(module), "growkit_sizes", {}).items():
            if is_count(place):
                continue
            value = getattr(module, attribute, None)
            expression = _at(prefix, place, layouts)
            declared_size = None if expression is None else size(expression, sizes)
            if value == 1 and declared_size != 1:  # a factor of one unit leaves no trace
                continue
            if expression is None or declared_size is None or declared_size != value:
                wrong = "no such dim" if expression is None else f"a dim of {declared_size} units"
                raise LayoutError(
                    f"{type(module).__name__}.growkit_sizes says that {attribute} = {value} is the size of "
                    f"{place}, which is {wrong}",
                    "'path.to.weight[dim]' or 'path.to.weight[dim].factor', relative to the module, of that size",
                    f"mend growkit_sizes of {type(module).__name__}",
                )
            yield Number(prefix + attribute, None, declared_size, (expression,), read=False)


def _kept_by(kind: type[nn.Module]) -> list[Callable[[Any], dict[str, str]]]:
    bases = kind.__mro__
    found = [*(KEPT.get(base) for base in bases), *(FOREIGN.get(qualified_name(base)) for base in bases)]
    return [kept for kept in found if kept is not None]


def _at(prefix: str, places: str, layouts: Mapping[str, Layout]) -> Expression | None:
    """The product of the expressions at some dims, None if there is no axis.

    `[0].1` is the second factor of a dim; the other factor of a dim that is no product has one unit. `[0]:gain` is
    what has this role.
    """
    found = [_at_place(prefix, place, layouts) for place in _places(places)]
    factors = [expression for expression in found if expression is not None]
    return Product(tuple(factors)) if len(factors) > 1 else factors[0] if factors else None


@lru_cache(maxsize=1024)
def _places(places: str) -> tuple[_Place, ...]:
    return tuple(
        _Place(
            match["tensor"],
            int(match["dim"]),
            None if match["factor"] is None else int(match["factor"]),
            match["role"],
        )
        for match in map(_DIM.fullmatch, places.split(" "))
        if match is not None
    )


def _at_place(prefix: str, place: _Place, layouts: Mapping[str, Layout]) -> Expression | None:
    name = next((name for name in _names(prefix + place.tensor) if name in layouts), None)
    dims = () if name is None else layouts[name].dims
    if place.dim >= len(dims):
        return None
    expression = dims[place.dim]
    if place.factor is not None and isinstance(expression, Product | Concat):
        terms = list(leaves(expression))
        if place.factor >= len(terms):
            return None
        expression = terms[place.factor]
    if place.role is not None and isinstance(expression, Product):
        role = Role(place.role)
        chosen = tuple(f for f in expression.factors if {leaf.role for leaf in leaves(f)} == {role})
        expression = Product(chosen)
    return without_roles(expression) if next(leaves(expression), None) else None


def _names(tensor: str) -> Iterator[str]:
    """The name of a parameter, and where it is held if it is computed."""
    yield tensor
    owner, dot, attribute = tensor.rpartition(".")
    yield from (path.format(owner + dot, attribute) for path in _COMPUTED)
