"""Matrix products and convolutions."""

from __future__ import annotations

import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.occurrence import Dim
from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register

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
        raise Unfollowable(f"two parameters are contracted by {call.op}")
    batched = left.dim() == 3
    inner = len(b.dims) - 2 if len(b.dims) > 1 else 0
    _contract(call, a, a.dims[-1], b, b.dims[inner])
    dims: list[Dim] = []
    if batched:
        active = a if a.nature is Nature.ACTIVATION else b
        call.tie(a.dims[0], b.dims[0])
        dims.append(active.dims[0])
        if a.nature is b.nature:
            call.note(a.dims[0], "per_head")
        else:
            for known in (a, b):  # one matrix for each of the batch: no role says how both grow
                if known.nature is not Nature.ACTIVATION and call.axes.named(known.dims[0]):
                    call.lock(known.dims[0], f"a parameter is batched by {call.op}")
    free = [(a, b, a.dims[-2])] + ([(b, a, b.dims[-1])] if len(b.dims) > 1 else [])
    for mine, other, dim in free:
        if mine.nature is Nature.WEIGHT or (mine.nature is Nature.CONSTANT and other.nature is Nature.ACTIVATION):
            call.axes.assign(dim, Role.PRODUCES)
        dims.append(dim)
    return Known(dims, Nature.ACTIVATION)


def _contract(call: Call, a: Known, left: Dim, b: Known, right: Dim) -> None:
    for mine, other, dim in ((a, b, left), (b, a, right)):
        if mine.nature is Nature.WEIGHT or (mine.nature is Nature.CONSTANT and other.nature is Nature.ACTIVATION):
            call.axes.assign(dim, Role.CONSUMES)
        elif mine.nature is Nature.CONSTANT and other.nature is Nature.WEIGHT:
            call.axes.assign(dim, Role.PRODUCES)
    table = any(k.nature is Nature.CONSTANT and not call.axes.named(d) for k, d in ((a, left), (b, right)))
    call.tie(left, right)
    if table:
        call.lock(left, "it is contracted with a table that the forward pass makes")
    if a.nature is b.nature is Nature.ACTIVATION:
        call.note(left, "contracted_activations")


def _add_bias(call: Call, known: Known, bias: Tensor) -> Known:
    added = call.known(bias)
    offset = len(known.dims) - len(added.dims)
    for d, dim in enumerate(added.dims):
        if bias.shape[d] != 1 or call.result.shape[d + offset] == 1:
            if added.nature is Nature.ACTIVATION:
                call.note(known.dims[d + offset], "residual")
            else:
                call.axes.assign(dim, Role.PRODUCES)
            call.tie(known.dims[d + offset], dim)
    return known


@register(aten.convolution, aten._convolution)
def convolution(call: Call) -> Known:
    """`'batch in *space', 'out in *kernel' -> 'batch out *space'`; depthwise: weight `'channels 1 *kernel'`."""
    x, weight, groups = call["input"], call["weight"], call["groups"]
    entering, kernel = call.known(x), call.known(weight)
    channels = x.shape[1]
    if call["transposed"] or kernel.nature is not Nature.WEIGHT or entering.nature is Nature.WEIGHT:
        raise Unfollowable("a convolution that is transposed, or whose kernel is no parameter")
    if groups == 1:
        call.tie(entering.dims[1], kernel.dims[1])
        call.axes.assign(kernel.dims[1], Role.CONSUMES)
        call.axes.assign(kernel.dims[0], Role.PRODUCES)
    elif groups == channels == weight.shape[0]:
        call.tie(entering.dims[1], kernel.dims[0])
        call.axes.assign(kernel.dims[0], Role.GAIN)
        call.note(kernel.dims[0], "depthwise_conv")
    else:
        raise Unfollowable(f"a convolution in {groups} groups of {channels} channels")
    call.attach(call["bias"], [kernel.dims[0]], Role.PRODUCES)
    for size, dim in zip(weight.shape[2:], kernel.dims[2:], strict=True):
        if size != 1:
            call.lock(dim, "it counts the places of a convolution kernel")
    for dim in entering.dims[2:]:
        if call.axes.named(dim):
            call.lock(dim, "a convolution runs over it")
    space = [call.fresh(size) for size in call.result.shape[2:]]
    return Known([entering.dims[0], kernel.dims[0], *space], Nature.ACTIVATION)
