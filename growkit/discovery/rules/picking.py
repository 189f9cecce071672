"""Ops that pick entries by an index or a mask: looking up, routing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register
from growkit.discovery.rules.elementwise import TABLE, varies
from growkit.discovery.stacks import BY_NUMBER, PICKED

aten = torch.ops.aten
_MASKED = "its units are picked by a mask"


@register(aten.embedding)
def embedding(call: Call) -> Known:
    """`'entries out', '*ids' -> '*ids out'`."""
    return _looked_up(call, call["weight"], call["indices"])


def _looked_up(call: Call, entries: Tensor, ids: Tensor) -> Known:
    table = call.known(entries)
    _look_up(call, table, ids)
    call.axes.assign(table.dims[1], Role.PRODUCES)
    return Known([*call.known(ids).dims, table.dims[1]], Nature.ACTIVATION)


def _look_up(call: Call, table: Known, ids: Tensor) -> None:
    """Units of a parameter that are known by their numbers keep these when new ones come behind them."""
    if table.nature is not Nature.WEIGHT:
        call.lock(table.dims[0], BY_NUMBER)
    elif call.known(ids).nature is Nature.CONSTANT and _are_distances(ids):
        call.lock(table.dims[0], "its units are looked up by the distance of two places")
    else:
        call.axes.assign(table.dims[0], Role.PRODUCES)
        call.note(table.dims[0], "lookup")


def _are_distances(ids: Tensor) -> bool:
    """Whether numbers that do not come from the inputs are other than those of places one after the other."""
    along = [size for d, size in enumerate(ids.shape) if varies(ids, ids.dim() - d)]
    return len(along) > 1 or (len(along) == 1 and ids.unique().numel() < along[0])


@register(aten._embedding_bag, aten._embedding_bag_forward_only)
def embedding_bag(call: Call) -> list[Known]:
    """`'entries out', 'ids', 'bags' -> 'bags out'`: sum, mean or maximum of the entries of each bag."""
    table = call.known(call["weight"])
    _look_up(call, table, call["indices"])
    call.axes.assign(table.dims[1], Role.PRODUCES)
    if call["mode"] == 2:
        call.note(table.dims[1], "pointwise:max")
    out, *rest = call.result
    found = [Known([call.fresh(out.shape[0]), table.dims[1]], Nature.ACTIVATION)]
    return found + [Known([call.fresh(size) for size in x.shape], Nature.ACTIVATION) for x in rest]


@dataclass(frozen=True)
class Places:
    """The dims of `tensor[indices]`, and which dims of the tensor are left as they are."""

    dims: list[Dim]
    kept: list[int]


def places(call: Call, tensor: Tensor, indices: Sequence[Tensor | None]) -> Places:
    """Where integer tensors and masks point: the axes that they pick from are locked."""
    dims = call.known(tensor).dims
    vectors: list[tuple[Sequence[int], list[Dim]]] = []
    taken: list[int] = []
    d = 0
    for index in indices:
        if index is None:
            d += 1
            continue
        count, reason = 1, BY_NUMBER
        if index.dtype in (torch.bool, torch.uint8):
            count, reason = index.dim(), _MASKED
            if count == 0:
                raise Unfollowable("a single truth value picks entries")
            for mine, theirs in zip(call.known(index).dims, dims[d:], strict=False):
                call.tie(theirs, mine)
            chosen = int(index.count_nonzero())
            vectors.append(((chosen,), [call.fresh(chosen)]))
        else:
            vectors.append((index.shape, call.known(index).dims))
        taken += range(d, d + count)
        for dim in dims[d : d + count]:
            call.lock(dim, reason)
        d += count
    shape = torch.broadcast_shapes(*(torch.Size(sizes) for sizes, _ in vectors))
    broadcast = [call.fresh(size) for size in shape]
    for sizes, theirs_all in vectors:
        for size, mine, theirs in zip(reversed(sizes), reversed(broadcast), reversed(theirs_all), strict=False):
            if size != 1:
                call.tie(mine, theirs)
    kept = [e for e in range(tensor.dim()) if e not in taken]
    first = taken[0] if taken[-1] - taken[0] + 1 == len(taken) else 0
    left = [dims[e] for e in kept]
    return Places(left[:first] + broadcast + left[first:], kept)


@register(aten.index)
def index(call: Call) -> Known:
    """Integer tensors and masks pick entries of some dims; the others stay."""
    if (unit := _one_place(call)) is not None:
        return unit
    tensor, first = call["self"], call["indices"][0]
    of_table = tensor.dim() == 2 and len(call["indices"]) == 1 and first is not None and first.dtype is torch.int64
    if of_table and call.known(tensor).nature is Nature.WEIGHT:
        return _looked_up(call, tensor, first)
    found = places(call, tensor, call["indices"])
    by = call.nature(x for x in call["indices"] if x is not None)
    return Known(found.dims, _entries(call, tensor, found.kept, by))


def _one_place(call: Call) -> Known | None:
    """A list of one number picks as a slice of one unit does."""
    picked = [(d, x) for d, x in enumerate(call["indices"]) if x is not None]
    if len(picked) > 1 or picked[0][1].dtype is not torch.int64 or picked[0][1].shape != (1,):
        return None
    ((d, place),) = picked
    if call.known(place).nature is not Nature.CONSTANT or place.is_meta:
        return None
    known = call.known(call["self"])
    start = int(place) % call["self"].shape[d]
    unit = call.cut(known.dims[d], start, start + 1)
    call.note(unit, f"{PICKED}0")
    return Known([*known.dims[:d], unit, *known.dims[d + 1 :]], known.nature)


def _entries(call: Call, tensor: Tensor, kept: Iterable[int], by: Nature) -> Nature:
    """The nature of what is picked from a tensor that keeps some dims.

    Vectors of a parameter are activations from here on, as of an embedding; matrices, as of experts, still weights.
    """
    known, rest = call.known(tensor), [d for d in kept if tensor.shape[d] != 1]
    if known.nature is Nature.ACTIVATION:
        return Nature.ACTIVATION
    if known.nature is Nature.WEIGHT and len([d for d in rest if call.axes.named(known.dims[d])]) > 1:
        return Nature.WEIGHT
    if known.nature is Nature.CONSTANT and by is not Nature.ACTIVATION:
        return by
    for d in rest:
        if call.axes.named(known.dims[d]):
            call.axes.assign(known.dims[d], Role.PRODUCES)
        elif varies(tensor, tensor.dim() - d):
            call.lock(known.dims[d], TABLE)
    return Nature.ACTIVATION


@register(aten.index_select)
def index_select(call: Call) -> Known:
    """Entries of one dim picked by a vector."""
    tensor, ids = call["self"], call["index"]
    known = call.known(tensor)
    d = call.dim("dim", tensor)
    call.lock(known.dims[d], BY_NUMBER)
    dims = [*known.dims]
    dims[d] = call.known(ids).dims[0] if ids.dim() else []
    kept = [e for e in range(tensor.dim()) if e != d]
    return Known(dims, _entries(call, tensor, kept, call.nature([ids])))


@register(aten.gather)
def gather(call: Call) -> Known:
    """Entries of one dim picked by an index of the same rank."""
    tensor, ids = call["self"], call["index"]
    known, picks = call.known(tensor), call.known(ids)
    if not ids.dim():
        raise Unfollowable("single entries are gathered")
    d = call.dim("dim", tensor)
    call.lock(known.dims[d], BY_NUMBER)
    dims = list(picks.dims)
    for other in range(tensor.dim()):
        if other == d:
            continue
        if tensor.shape[other] == ids.shape[other]:
            call.tie(known.dims[other], dims[other])
            dims[other] = known.dims[other]
        else:  # only the first of them
            call.lock(known.dims[other], BY_NUMBER)
    kept = [e for e in range(tensor.dim()) if e != d]
    return Known(dims, max(picks.nature, _entries(call, tensor, kept, picks.nature)))


@register(aten.take)
def take(call: Call) -> Known:
    """Entries picked by their place in the flattened tensor."""
    for dim in call.known(call["self"]).dims:
        call.lock(dim, BY_NUMBER)
    ids = call.known(call["index"])
    return Known(ids.dims, max(ids.nature, _entries(call, call["self"], [], ids.nature)))


@register(aten.masked_select)
def masked_select(call: Call) -> Known:
    """Entries where a mask holds, one after the other."""
    for tensor in (call["self"], call["mask"]):
        for dim in call.known(tensor).dims:
            if call.axes.named(dim):
                call.lock(dim, _MASKED)
    by = call.nature([call["mask"]])
    return Known([call.fresh(len(call.result))], max(by, _entries(call, call["self"], [], by)))


@register(aten.topk, aten.sort, aten.kthvalue, aten.mode, aten.median, aten.nanmedian)
def ranked(call: Call) -> Known | list[Known]:
    """Units of one dim chosen, or put in order, by their values; the others are treated one by one."""
    tensor = call["self"]
    known = call.known(tensor)
    d = call.dim("dim", tensor) if "dim" in call.arguments else None
    for e, dim in enumerate(known.dims):
        if e == d or d is None:
            call.lock(dim, f"{call.op} compares its units and picks them by their number")
        elif known.nature is Nature.ACTIVATION:
            call.note(dim, "pointwise:max")
    if known.nature is Nature.WEIGHT:
        raise Unfollowable(f"a parameter passes {call.op} before it is used")
    if isinstance(call.result, Tensor):
        return Known([], known.nature)
    dims = list(known.dims)
    if d is not None and tensor.dim():
        shape = call.result[0].shape
        if len(shape) < tensor.dim():
            del dims[d]
        elif shape[d] != tensor.shape[d]:
            dims[d] = call.fresh(shape[d])
    return [Known(dims, known.nature)] * 2


@register(
    aten.nonzero, aten._unique2, aten.unique_dim, aten.unique_consecutive, aten.bincount, aten.histc,
    aten.nonzero_static, aten.argwhere, aten.isin,
)  # fmt: skip
def counted(call: Call) -> list[Known]:
    """Values are found or counted: the result has as many entries as there are in the data."""
    tensors = [x for x in call.arguments.values() if isinstance(x, Tensor)]
    for tensor in tensors:
        for dim in call.known(tensor).dims:
            call.lock(dim, f"{call.op} finds its units by their number, or counts them")
    results = [call.result] if isinstance(call.result, Tensor) else list(call.result)
    return [Known([call.fresh(size) for size in x.shape], call.nature(tensors)) for x in results]


@register(aten.searchsorted, aten.bucketize)
def searched(call: Call) -> Known:
    """The place of each entry among sorted bounds."""
    bounds = call["sorted_sequence" if call.op == "searchsorted" else "boundaries"]
    values, ladder = call["self"], call.known(bounds)
    known = call.known(values) if isinstance(values, Tensor) else Known([], Nature.CONSTANT)
    call.lock(ladder.dims[-1], "entries are looked up among its units")
    dims = list(known.dims)
    if bounds.dim() > 1:
        for mine, theirs in zip(dims[:-1], ladder.dims[:-1], strict=True):
            call.tie(mine, theirs)
    for dim in dims:
        call.note(dim, "pointwise:ge")
    return Known(dims, max(known.nature, ladder.nature))


@register(aten.repeat_interleave)
def repeat_interleave(call: Call) -> Known:
    """The number of each unit, as often as a tensor says."""
    repeats = call["repeats"]
    call.lock(call.known(repeats).dims[0], "it counts how often units are repeated")
    return Known([call.fresh(len(call.result))], call.known(repeats).nature)


@register(aten._grouped_mm)
def grouped_product(call: Call) -> Known:
    """`'rows k', 'experts k n' -> 'rows n'`: each expert has the rows up to its offset."""
    rows, stack = call["self"], call["mat2"]
    a, b = call.known(rows), call.known(stack)
    if (rows.dim(), stack.dim()) != (2, 3) or (a.nature, b.nature) != (Nature.ACTIVATION, Nature.WEIGHT):
        raise Unfollowable("a grouped product other than of rows with one matrix for each expert")
    call.lock(b.dims[0], BY_NUMBER)
    call.axes.assign(b.dims[1], Role.CONSUMES)
    call.axes.assign(b.dims[2], Role.PRODUCES)
    call.tie(a.dims[1], b.dims[1])
    call.attach(call["bias"], [b.dims[2]], Role.PRODUCES)
    return Known([a.dims[0], b.dims[2]], Nature.ACTIVATION)
