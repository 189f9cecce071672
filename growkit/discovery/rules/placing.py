"""Ops that write entries to places of a tensor that a mask or an index names: dispatching, combining, filling in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register
from growkit.discovery.rules.elementwise import TABLE, combine, note_shifts, varies
from growkit.discovery.rules.picking import places
from growkit.discovery.stacks import BY_NUMBER

aten = torch.ops.aten
_PLACED = "its units are placed by their number"
_LINEAR = (None, "add", "sum", "mean")


@register(aten.index_put)
def index_put(call: Call) -> Known:
    """`tensor[indices] = values`, or `+=`: integer tensors and masks name the places."""
    found = places(call, call["self"], call["indices"])
    return _result(call, call["values"], found.dims, [x for x in call["indices"] if x is not None])


@register(aten.index_add, aten.index_copy, aten.index_reduce)
def index_write(call: Call) -> Known:
    """Slices along one dim are added to those that an index names, or take their place."""
    target, source = call["self"], call["source"]
    dims = list(call.known(target).dims)
    d = call.dim("dim", target)
    call.lock(dims[d], _PLACED)
    dims[d] = call.known(call["index"]).dims[0] if call["index"].dim() else []
    if source.dim():
        call.lock(call.known(source).dims[d], _PLACED)
    return _result(call, source, dims if source.dim() else [], [call["index"]])


@register(aten.index_fill)
def index_fill(call: Call) -> Known:
    """Slices along one dim that an index names become one number."""
    dims = list(call.known(call["self"]).dims)
    d = call.dim("dim", call["self"])
    call.lock(dims[d], _PLACED)
    return _result(call, call["value"], dims[:d] + dims[d + 1 :], [call["index"]])


@register(aten.scatter, aten.scatter_add, aten.scatter_reduce)
def scatter(call: Call) -> Known:
    """Entries go to the places along one dim that an index of the same rank names."""
    target, index = call["self"], call["index"]
    source = call["src"] if "src" in call.arguments else call["value"]
    if not index.dim():
        raise Unfollowable("single entries are scattered")
    d, dims, picks = call.dim("dim", target), call.known(target).dims, call.known(index).dims
    call.lock(dims[d], _PLACED)
    call.lock(picks[d], _PLACED)
    if isinstance(source, Tensor) and call.known(source).nature is Nature.CONSTANT:
        _produce(call, source, call.known(source).dims)
    for tensor in [target, source] if isinstance(source, Tensor) else [target]:
        for e, dim in enumerate(call.known(tensor).dims):
            if tensor.shape[e] != index.shape[e]:
                call.lock(dim, _PLACED)  # only the first of them
            elif e != d or tensor is source:
                call.tie(dim, picks[e])
    written = [dim for e, dim in enumerate(dims) if e != d]
    return _result(call, source, written if not isinstance(source, Tensor) else picks, [index], tied=True)


@register(aten.masked_scatter)
def masked_scatter(call: Call) -> Known:
    """Where a mask holds, entries of a source in their order: whole rows, if the mask is the same along a row."""
    target, mask, source = call["self"], call["mask"], call["source"]
    dims = call.known(target).dims
    rows = 0
    while rows < min(target.dim(), source.dim()) - 1 and (
        target.shape[-rows - 1] == source.shape[-rows - 1] and not varies(mask.expand_as(target), rows + 1)
    ):
        rows += 1
    for size, mine, theirs in zip(reversed(mask.shape), reversed(call.known(mask).dims), reversed(dims), strict=False):
        if size != 1:
            call.tie(theirs, mine)
    for dim in (*dims[: target.dim() - rows], *call.known(source).dims[: source.dim() - rows]):
        if call.axes.named(dim):
            call.lock(dim, "its units are placed by a mask")
    return _result(call, source, dims[target.dim() - rows :], [mask], rows)


@register(aten.slice_scatter)
def slice_scatter(call: Call) -> Known:
    """`tensor[..., start:stop] = source`, as a new tensor."""
    target, source = call["self"], call["src"]
    dims = list(call.known(target).dims)
    d = call.dim("dim", target)
    start, stop, step = slice(call["start"], call["end"], call["step"]).indices(target.shape[d])
    if step != 1:
        call.lock(dims[d], _PLACED)
        dims[d] = call.fresh(source.shape[d])
    else:
        dims[d] = call.cut(dims[d], start, stop)
    return _result(call, source, dims, [])


@register(aten.select_scatter)
def select_scatter(call: Call) -> Known:
    """`tensor[..., index] = source`, as a new tensor."""
    dims = list(call.known(call["self"]).dims)
    d = call.dim("dim", call["self"])
    call.lock(dims[d], BY_NUMBER)
    return _result(call, call["src"], dims[:d] + dims[d + 1 :], [])


@register(aten.copy_)
def copy(call: Call) -> Known:
    """A tensor is written into another one, which may be a slice of a larger one."""
    target, source = call["self"], call["src"]
    place, known = call.known(target), call.known(source)
    if place.nature is Nature.CONSTANT and known.nature is not Nature.CONSTANT:
        combined = combine(call, [source], target.shape, Role.PRODUCES)
        for size, mine, theirs in zip(target.shape[::-1], place.dims[::-1], combined.dims[::-1], strict=True):
            if size != 1 and theirs:
                call.tie(theirs, mine)
        _produce(call, target, place.dims, old=True)
        _beside(call, target, place)
        if known.nature is Nature.WEIGHT:
            _produce(call, source, known.dims)
        return Known(place.dims, Nature.ACTIVATION)
    found = combine(call, [target, source], target.shape, Role.PRODUCES)
    if found.nature is Nature.ACTIVATION:
        note_shifts(call, found, [source] if known.nature is Nature.CONSTANT else [])
    return Known(found.dims, Nature.ACTIVATION if known.nature is Nature.WEIGHT else found.nature)


def _beside(call: Call, tensor: Tensor, known: Known) -> None:
    """What a constant holds beside the slice that is written: numbers stop scales, a table locks."""
    whole = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    shown = torch.zeros_like(whole, dtype=torch.bool)
    shown.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(True)
    rest = whole[~shown]
    if rest.any():
        for dim in known.dims:
            call.note(dim, "pointwise:masked_fill")
            if rest.unique().numel() > 1:
                call.lock(dim, TABLE)


@register(aten.fill_, aten.zero_, aten.fill)
def fill(call: Call) -> Known:
    """All entries become one number."""
    known = call.known(call["self"])
    if known.nature is Nature.ACTIVATION:
        note_shifts(call, known, [call.arguments.get("value", 0)])
    return known


def _result(
    call: Call,
    source: Any,
    dims: Sequence[Dim],
    named_by: Sequence[Tensor],
    last: int | None = None,
    tied: bool = False,
) -> Known:
    """What the target is afterwards, when a source was written along `dims` of it, right-aligned.

    `last`: only so many of the last dims of the source lie along `dims`; `tied`: they are tied already.
    """
    target = call.known(call["self"])
    if call.arguments.get("reduce") not in _LINEAR:
        for dim in target.dims:
            call.note(dim, "pointwise:prod")
    known = call.known(source) if isinstance(source, Tensor) else Known([], Nature.CONSTANT)
    nature = max(target.nature, known.nature, call.nature(named_by))
    if Nature.CONSTANT in (target.nature, known.nature) and nature is Nature.WEIGHT is known.nature:
        nature = Nature.ACTIVATION  # a parameter among constants
    _keep(call, target, nature)
    if not isinstance(source, Tensor):
        constant = source != 0
    else:
        mine = known.dims[len(known.dims) - (len(known.dims) if last is None else last) :]
        if known.nature is not Nature.ACTIVATION and nature is Nature.ACTIVATION:
            _produce(call, source, mine)
        if not tied:
            for size, theirs, dim in zip(source.shape[::-1], mine[::-1], list(dims)[::-1], strict=False):
                if size != 1:
                    call.tie(dim, theirs)
        constant = known.nature is Nature.CONSTANT and bool(source.any())
    if constant:
        for dim in dims:  # entries that no parameter holds unit by unit: a scale does not pass them
            call.note(dim, "pointwise:masked_fill")
    return Known(target.dims, nature)


def _keep(call: Call, target: Known, nature: Nature) -> None:
    """What was in the target before stays in some places of an activation."""
    tensor = call["self"]
    if target.nature is Nature.ACTIVATION or nature is not Nature.ACTIVATION:
        return
    if target.nature is Nature.CONSTANT:
        if call.result is tensor:  # its old values are gone: would zeros have given the same?
            others = {name: value for name, value in call.arguments.items() if name != "self"}
            again = getattr(aten, call.op)(torch.zeros_like(tensor), **others)
            empty = torch.equal(again, tensor)
        else:
            empty = not tensor.any()
        if empty:
            return
        for dim in target.dims:
            call.note(dim, "pointwise:masked_fill")
        if call.result is tensor:
            for dim in target.dims:
                if not call.axes.named(dim):
                    call.lock(dim, TABLE)  # perhaps it was none: what it held is gone
    _produce(call, tensor, target.dims, old=call.result is tensor)


def _produce(call: Call, tensor: Tensor, dims: Sequence[Dim], old: bool = False) -> None:
    """A parameter, buffer or constant becomes a part of an activation as it is; `old`: it has other values by now."""
    for back, dim in enumerate(reversed(dims), start=1):
        if tensor.shape[-back] == 1:
            continue
        if call.axes.named(dim):
            call.axes.assign(dim, Role.PRODUCES)
        elif not old and call.known(tensor).nature is Nature.CONSTANT and varies(tensor, back):
            call.lock(dim, TABLE)
