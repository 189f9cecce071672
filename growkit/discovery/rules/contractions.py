"""Matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature
from growkit.discovery.derived import FACTOR, TERM
from growkit.discovery.rule_table import register
from growkit.discovery.rules.elementwise import lock_table, note_shifts, shifted, varies

aten = torch.ops.aten


@register(aten.mm, aten.bmm)
def matrix_product(call: Call) -> Known:
    """`'m k', 'k n' -> 'm n'`, with or without batch."""
    return _product(call, call["self"], call["mat2"])


@register(aten.addmm, aten.baddbmm)
def matrix_product_and_sum(call: Call) -> Known:
    """A bias plus a matrix product."""
    names = ("mat1", "mat2") if call.op == "addmm" else ("batch1", "batch2")
    known = _product(call, call[names[0]], call[names[1]])
    return _add_bias(call, known, call["self"])


@register(aten.mv)
def matrix_vector_product(call: Call) -> Known:
    """`'m k', 'k' -> 'm'`."""
    return _product(call, call["self"], call["vec"])


def _product(call: Call, left: Tensor, right: Tensor) -> Known:
    """`'batch m k', 'batch k n' -> 'batch m n'`, with or without batch and n."""
    a, b = call.known(left), call.known(right)
    if a.nature is b.nature is Nature.WEIGHT:
        a, b = (_as_activation(call, x) if _is_spread(call, x) else x for x in (a, b))
    if a.nature is b.nature is Nature.WEIGHT:
        return _of_parameters(call, a, b)
    batched = left.dim() == 3
    inner = len(b.dims) - 2 if len(b.dims) > 1 else 0
    for tensor, known, back in ((left, a, 1), (right, b, right.dim() - inner)):
        if known.nature is Nature.CONSTANT and not call.axes.named(known.dims[-back]):
            if varies(tensor, back):
                call.lock(known.dims[-back], "it is contracted with a table that the forward pass makes")
            else:  # such as an initial state of zeros: the same for each unit, so new units get it too
                call.note(known.dims[-back], "pointwise:constant")
    _contract(call, a, a.dims[-1], b, b.dims[inner])
    dims: list[Dim] = []
    if batched:
        active = a if a.nature is Nature.ACTIVATION else b
        call.tie(a.dims[0], b.dims[0])
        dims.append(active.dims[0])
        if a.nature is b.nature:
            call.note(a.dims[0], "per_head")
        else:
            for known in (a, b):  # one matrix for each of the batch, as for each group of a convolution
                if known.nature is not Nature.ACTIVATION and call.axes.named(known.dims[0]):
                    call.axes.assign(known.dims[0], Role.GAIN)
                    call.note(known.dims[0], "grouped_conv")
    free = [(a, b, a.dims[-2])] + ([(b, a, b.dims[-1])] if len(b.dims) > 1 else [])
    for mine, other, dim in free:
        if mine.nature is Nature.WEIGHT or (mine.nature is Nature.CONSTANT and other.nature is Nature.ACTIVATION):
            call.axes.assign(dim, Role.PRODUCES)
        dims.append(dim)
    return Known(dims, Nature.ACTIVATION)


def _is_spread(call: Call, known: Known) -> bool:
    """Whether a parameter was repeated for each entry of the data, as a learned state or query is."""
    return any(not call.axes.named([node]) for dim in known.dims for node in dim if node.size != 1)


def _as_activation(call: Call, known: Known) -> Known:
    for dim in known.dims:
        call.axes.assign([node for node in dim if call.axes.named([node])], Role.PRODUCES)
    return Known(known.dims, Nature.ACTIVATION)


def _of_parameters(call: Call, a: Known, b: Known) -> Known:
    """A low-rank weight, `B @ A`: the rank is produced by A and consumed by B, as if they were used in turn."""
    batch, (*rows, left), (right, *columns) = (
        (a.dims[:1], a.dims[1:], b.dims[1:]) if len(a.dims) == 3 else ([], a.dims, b.dims)
    )
    call.axes.assign(left, Role.CONSUMES)
    call.axes.assign(right, Role.PRODUCES)
    call.tie(left, right)
    call.derived.contracted += [(left, call.where), (right, call.where)]
    for dim in batch:
        call.tie(dim, b.dims[0])
    batches = [call.derive((dim, TERM), (b.dims[0], FACTOR)) for dim in batch]
    return Known([*batches, *(call.derive((dim, TERM)) for dim in (*rows, *columns))], Nature.WEIGHT)


def _contract(call: Call, a: Known, left: Dim, b: Known, right: Dim) -> None:
    for mine, other, dim in ((a, b, left), (b, a, right)):
        if mine.nature is Nature.WEIGHT or (mine.nature is Nature.CONSTANT and other.nature is Nature.ACTIVATION):
            call.axes.assign(dim, Role.CONSUMES)
        elif mine.nature is Nature.CONSTANT and other.nature is Nature.WEIGHT:
            call.axes.assign(dim, Role.PRODUCES)
    call.tie(left, right)
    if a.nature is b.nature is Nature.ACTIVATION:
        call.note(left, "contracted_activations")


def _add_bias(call: Call, known: Known, bias: Tensor) -> Known:
    added = call.known(bias)
    offset = len(known.dims) - len(added.dims)
    if known.nature is Nature.WEIGHT and added.nature is not Nature.ACTIVATION:
        return _sum_of_parameters(call, known, bias)
    for d, dim in enumerate(added.dims):
        if bias.shape[d] != 1 or call.result.shape[d + offset] == 1:
            if added.nature is Nature.ACTIVATION:
                call.note(known.dims[d + offset], "residual")
            else:
                lock_table(call, known.dims[d + offset], bias, dim, bias.dim() - d)
                call.axes.assign(dim, Role.PRODUCES)
            call.tie(known.dims[d + offset], dim)
    note_shifts(call, known, [bias])
    return known


def _sum_of_parameters(call: Call, product: Known, bias: Tensor) -> Known:
    added = call.known(bias)
    dims = list(product.dims)
    for back, (size, dim) in enumerate(zip(reversed(bias.shape), reversed(added.dims), strict=True), start=1):
        if size != 1 and call.axes.named(dim):
            call.tie(dims[-back], dim)
            dims[-back] = call.derive((dims[-back], TERM), (dim, TERM))
    return shifted(call, Known(dims, product.nature), [bias])
