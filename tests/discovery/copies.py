"""Growing by copies along discovered axes, without any code of growkit's growth."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.expressions import Expression, Fixed, Leaf, Product, Role, size
from growkit.axes.table import AxisTable
from growkit.discovery.discover import discover
from growkit.discovery.inputs import as_inputs

Sources = Mapping[str, Sequence[int]]


def _index(expression: Expression, sources: Sources, sizes: Mapping[str, int]) -> tuple[Tensor, Tensor]:
    """Old unit and factor of each new unit of a dim."""
    match expression:
        case Leaf(axis, role):
            source = torch.tensor(sources.get(axis, range(sizes[axis])))
            counts = Counter(source.tolist())
            shares = [1 / counts[i] if role is Role.CONSUMES else 1.0 for i in source.tolist()]
            return source, torch.tensor(shares, dtype=torch.float64)
        case Fixed(number):
            return torch.arange(number), torch.ones(number, dtype=torch.float64)
    parts = expression.factors if isinstance(expression, Product) else expression.parts
    found = [_index(part, sources, sizes) for part in parts]
    if isinstance(expression, Product):
        index, factor = found[0]
        for part, (inner, inner_factor) in zip(parts[1:], found[1:], strict=True):
            index = (index[:, None] * size(part, sizes) + inner).flatten()
            factor = (factor[:, None] * inner_factor).flatten()
        return index, factor
    offset, indices = 0, []
    for part, (index, _) in zip(parts, found, strict=True):
        indices.append(index + offset)
        offset += size(part, sizes)
    return torch.cat(indices), torch.cat([factor for _, factor in found])


def _grown(model: nn.Module, table: AxisTable, sources: Sources) -> nn.Module:
    model = copy.deepcopy(model)
    sizes = table.sizes
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    for name, layout in table.layouts.items():
        data = tensors[name].data
        for d, dim in enumerate(layout.dims):
            index, factor = _index(dim, sources, sizes)
            if data.is_floating_point():
                data = data.index_select(d, index) * factor.view([-1 if e == d else 1 for e in range(data.dim())])
        tensors[name].data = data
    new_sizes = sizes | {axis: len(source) for axis, source in sources.items()}
    for number in table.numbers:
        (value,) = {size(expression, new_sizes) for expression in number.sizes}
        path, _, attribute = number.path.rpartition(".")
        module = model.get_submodule(path)
        if number.index is not None:
            entries = list(getattr(module, attribute))
            entries[number.index] = value
            value = tuple(entries)
        setattr(module, attribute, value)
    return model


def _randomised(model: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(5)
    model = model.double().eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
        for tensor in model.buffers():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return model


def deviation_after_copies(model: nn.Module, inputs: Any, sources: Sources) -> float:
    """Largest relative change of the outputs when some axes grow by copies, in float64; checks the re-trace too."""
    model = _randomised(model)
    given = as_inputs(inputs)
    table = discover(model, inputs)
    grown = _grown(model, table, sources)
    again = discover(grown, inputs)
    assert {name: str(layout) for name, layout in again.layouts.items()} == {
        name: str(layout) for name, layout in table.layouts.items()
    }
    assert again.sizes == table.sizes | {axis: len(source) for axis, source in sources.items()}
    with torch.no_grad():
        before, after = model(*given.args, **given.kwargs), grown(*given.args, **given.kwargs)
    return float((before - after).abs().max() / before.abs().max())
