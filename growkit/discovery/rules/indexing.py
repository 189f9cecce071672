"""Ops that pick entries, or put tensors side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.derived import TERM
from growkit.discovery.rule_table import register
from growkit.discovery.stacks import BY_NUMBER, PICKED

aten = torch.ops.aten


@register(aten.slice)
def slice_(call: Call) -> Known:
    """Some units in a row."""
    tensor = call["self"]
    known = call.known(tensor)
    d, size = call.dim("dim", tensor), call.result.shape[call.dim("dim", tensor)]
    if size == tensor.shape[d]:
        return known
    start = slice(call["start"], None).indices(tensor.shape[d])[0]
    if call["step"] == 1:
        part = call.cut(known.dims[d], start, start + size)
    else:
        part = _every(call, known.dims[d], start, tensor.shape[d], size)
    return Known(_replaced(known.dims, d, part), known.nature)


def _every(call: Call, dim: Dim, start: int, whole: int, size: int) -> Dim:
    """Every n-th unit, as of pairs that lie one after the other: one unit of the inner factor of `(units n)`."""
    if call.axes.named(dim):
        step = call["step"]
        try:
            if start >= step or size * step != whole:
                raise Unfollowable("not one of each")
            outer, inner = call.split(dim, size)
        except Unfollowable:
            call.lock(dim, BY_NUMBER)
        else:
            call.lock(inner, BY_NUMBER)
            call.note(inner, f"{PICKED}{start}")
            return outer
    return call.fresh(size)


@register(aten.select)
def select(call: Call) -> Known:
    """One unit of a dim."""
    tensor = call["self"]
    known = call.known(tensor)
    d = call.dim("dim", tensor)
    return _picked(call, known, d, call["index"] % tensor.shape[d])


@register(aten.unbind)
def unbind(call: Call) -> list[Known]:
    """Every unit of a dim as a tensor of its own."""
    known, d = call.known(call["self"]), call.dim("dim", call["self"])
    return [_picked(call, known, d, unit) for unit in range(len(call.result))]


def _picked(call: Call, known: Known, d: int, unit: int) -> Known:
    """What is left of a tensor of which one unit of a dim is picked by its number."""
    call.lock_if_read(known.dims[d], BY_NUMBER)
    call.note(known.dims[d], f"{PICKED}{unit}")
    return Known(call.stacks.pick(call.axes, known.dims, d, unit, call.where), known.nature)


@register(aten.split, aten.split_with_sizes, aten.unsafe_split)
def split(call: Call) -> list[Known]:
    """A dim in pieces."""
    tensor = call["self"]
    known = call.known(tensor)
    d = call.dim("dim", tensor)
    found, start = [], 0
    for piece in call.result:
        stop = start + piece.shape[d]
        found.append(Known(_replaced(known.dims, d, call.cut(known.dims[d], start, stop)), known.nature))
        start = stop
    return found


@register(aten.glu)
def glu(call: Call) -> Known:
    """`'[a|a]' -> 'a'`: the first half times the sigmoid of the second."""
    tensor = call["self"]
    known = call.known(tensor)
    d, half = call.dim("dim", tensor), tensor.shape[call.dim("dim", tensor)] // 2
    value, gate = call.cut(known.dims[d], 0, half), call.cut(known.dims[d], half, 2 * half)
    call.tie(value, gate)
    call.note(gate, "pointwise:sigmoid")
    call.note(value, "gate")
    return Known(_replaced(known.dims, d, value), known.nature)


@register(aten.cat)
def cat(call: Call) -> Known:
    """Tensors one after the other along a dim."""
    tensors = [x for x in call["tensors"] if x.numel() or x.dim() > 1]  # torch lets an empty vector pass
    known = _side_by_side(call, tensors)
    d = call.dim("dim", tensors[0])
    dims = [call.known(x).dims[d] for x in tensors]
    joined: Dim
    # A dim of one unit without a role is there for broadcasting, as in a class token.
    if any(call.axes.named(node for node in dim if node.size != 1 or node.roles) for dim in dims):
        joined = [call.axes.concat([dim or [call.axes.node(1)] for dim in dims])]
    else:
        joined = call.fresh(call.result.shape[d])
    if known is Nature.WEIGHT:
        _refuse_tables(call, tensors)
        joined = [call.axes.concat([call.derive((dim, TERM)) or [call.axes.node(1)] for dim in dims])]
    tied = [_tied(call, tensors, other, known) if other != d else joined for other in range(tensors[0].dim())]
    return Known(tied, known)


@register(aten.stack)
def stack(call: Call) -> Known:
    """Tensors side by side along a new dim."""
    tensors = call["tensors"]
    nature = _side_by_side(call, tensors)
    if nature is Nature.WEIGHT:
        _refuse_tables(call, tensors)
    dims = [_tied(call, tensors, d, nature) for d in range(tensors[0].dim())]
    dims.insert(call.dim("dim", call.result), call.fresh(len(tensors)))
    return Known(dims, nature)


@register(aten.constant_pad_nd)
def pad(call: Call) -> Known:
    """A dim with constants around it."""
    tensor = call["self"]
    known = call.known(tensor)
    dims = list(known.dims)
    for d, size in enumerate(call.result.shape):
        if size != tensor.shape[d]:
            if call.axes.named(dims[d]):
                call.lock(dims[d], "it is padded")
            dims[d] = call.fresh(size)
        elif call["value"] and known.nature is Nature.ACTIVATION:
            call.note(dims[d], "pointwise:masked_fill")
    return Known(dims, known.nature)


def _replaced(dims: Sequence[Dim], d: int, dim: Dim) -> list[Dim]:
    return [*dims[:d], dim, *dims[d + 1 :]]


def _side_by_side(call: Call, tensors: Sequence[Tensor]) -> Nature:
    """The nature of the whole. A parameter beside activations (a class token) becomes one as it is."""
    nature = call.nature(tensors)
    if nature is Nature.ACTIVATION:
        for known in map(call.known, tensors):
            if known.nature is Nature.WEIGHT:
                for dim in known.dims:
                    call.axes.assign([node for node in dim if node.size != 1], Role.PRODUCES)
    return nature


def _refuse_tables(call: Call, tensors: Sequence[Tensor]) -> None:
    """What the forward pass makes has no roles; zeros need none."""
    for x in tensors:
        known = call.known(x)
        if known.nature is Nature.CONSTANT and not all(map(call.axes.named, known.dims)) and x.any():
            raise Unfollowable(f"a parameter and a table that the forward pass makes are put together by {call.op}")


def _tied(call: Call, tensors: Sequence[Tensor], d: int, nature: Nature) -> Dim:
    dims = [call.known(x).dims[d] for x in tensors]
    for dim in dims[1:]:
        call.tie(dims[0], dim)
    return call.derive(*((dim, TERM) for dim in dims)) if nature is Nature.WEIGHT else dims[0]
