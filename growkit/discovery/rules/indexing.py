"""Ops that pick entries, or put tensors side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register

aten = torch.ops.aten
_PICKED = "its units are picked by their number"
PICKED = "picked:"
"""Start of the kind of a passage in which one unit is picked; its number follows."""


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
        if call.axes.named(known.dims[d]):
            call.lock(known.dims[d], _PICKED)
        part = call.fresh(size)
    return Known(_replaced(known.dims, d, part), known.nature)


@register(aten.select)
def select(call: Call) -> Known:
    """One unit of a dim."""
    tensor = call["self"]
    known = call.known(tensor)
    d = call.dim("dim", tensor)
    return _picked(call, known, d, [call["index"] % tensor.shape[d]])


@register(aten.unbind)
def unbind(call: Call) -> list[Known]:
    """Every unit of a dim as a tensor of its own."""
    count = len(call.result)
    return [_picked(call, call.known(call["self"]), call.dim("dim", call["self"]), range(count))] * count


def _picked(call: Call, known: Known, d: int, units: Iterable[int]) -> Known:
    """What is left of a tensor of which some units of a dim are picked by their numbers."""
    call.lock(known.dims[d], _PICKED)
    for unit in units:
        call.note(known.dims[d], f"{PICKED}{unit}")
    return Known(known.dims[:d] + known.dims[d + 1 :], known.nature)


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
    tied = [_tied(call, tensors, other) if other != d else joined for other in range(tensors[0].dim())]
    return Known(tied, known)


@register(aten.stack)
def stack(call: Call) -> Known:
    """Tensors side by side along a new dim."""
    tensors = call["tensors"]
    nature = _side_by_side(call, tensors)
    dims = [_tied(call, tensors, d) for d in range(tensors[0].dim())]
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
    return Known(dims, known.nature)


@register(aten.embedding)
def embedding(call: Call) -> Known:
    """`'entries out', '*ids' -> '*ids out'`."""
    table, ids = call.known(call["weight"]), call.known(call["indices"])
    call.lock(table.dims[0], "its units are looked up by their number")
    call.axes.assign(table.dims[1], Role.PRODUCES)
    return Known([*ids.dims, table.dims[1]], Nature.ACTIVATION)


@register(aten.index)
def index(call: Call) -> Known:
    """Integer tensors pick entries of some dims; the others stay."""
    tensor, indices = call["self"], call["indices"]
    known = call.known(tensor)
    picked = {d: x for d, x in enumerate(indices) if x is not None}
    if len(picked) == 1 and _one_place(call, picked):
        ((d, place),) = picked.items()
        start = int(place) % tensor.shape[d]
        unit = call.cut(known.dims[d], start, start + 1)
        call.note(unit, f"{PICKED}0")
        return Known(_replaced(known.dims, d, unit), known.nature)
    if any(x.dtype in (torch.bool, torch.uint8) for x in picked.values()):
        raise Unfollowable("entries are picked by a mask")
    for d in picked:
        call.lock(known.dims[d], _PICKED)
    rank = max(x.dim() for x in picked.values())
    places = list(call.result.shape)
    first = min(picked) if max(picked) - min(picked) + 1 == len(picked) else 0
    broadcast = [call.fresh(size) for size in places[first : first + rank]]
    for x in picked.values():
        for size, mine, theirs in zip(
            reversed(x.shape), reversed(broadcast), reversed(call.known(x).dims), strict=False
        ):
            if size != 1:
                call.tie(mine, theirs)
    kept = [dim for d, dim in enumerate(known.dims) if d not in picked]
    nature = known.nature
    if nature is Nature.WEIGHT:
        nature = Nature.ACTIVATION
        for dim in kept:
            call.axes.assign(dim, Role.PRODUCES)
    return Known(kept[:first] + broadcast + kept[first:], max(nature, call.nature(picked.values())))


def _one_place(call: Call, picked: Mapping[int, Tensor]) -> bool:
    """Whether a list of one number picks: a slice of one unit."""
    (place,) = picked.values()
    of_integers = place.dtype is torch.int64 and place.shape == (1,)
    return of_integers and call.known(place).nature is Nature.CONSTANT and not place.is_meta


@register(aten.gather)
def gather(call: Call) -> Known:
    """Entries of one dim picked by an index of the same rank."""
    tensor, ids = call["self"], call["index"]
    known, picks = call.known(tensor), call.known(ids)
    d = call.dim("dim", tensor)
    call.lock(known.dims[d], _PICKED)
    for other in range(tensor.dim()):
        if other != d and tensor.shape[other] == ids.shape[other]:
            call.tie(known.dims[other], picks.dims[other])
    return Known(picks.dims, max(known.nature, picks.nature))


@register(aten.index_select)
def index_select(call: Call) -> Known:
    """Entries of one dim picked by a vector."""
    tensor = call["self"]
    known = call.known(tensor)
    d = call.dim("dim", tensor)
    call.lock(known.dims[d], _PICKED)
    if known.nature is Nature.WEIGHT:
        for other, dim in enumerate(known.dims):
            if other != d:
                call.axes.assign(dim, Role.PRODUCES)
    dims = _replaced(known.dims, d, call.fresh(call.result.shape[d]))
    return Known(dims, Nature.ACTIVATION if known.nature is Nature.WEIGHT else known.nature)


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
    elif nature is Nature.WEIGHT:
        raise Unfollowable(f"parameters are put together by {call.op} before they are used")
    return nature


def _tied(call: Call, tensors: Sequence[Tensor], d: int) -> Dim:
    dims = [call.known(x).dims[d] for x in tensors]
    for dim in dims[1:]:
        call.tie(dims[0], dim)
    return dims[0]
