"""Ops along one dim in which each unit depends on those before it, or on where it stands: scans, shifts, triangles."""

from __future__ import annotations

import torch
from torch import Tensor

from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register

aten = torch.ops.aten
_LINEAR = {"cumsum", "flip", "roll", "rot90", "tril", "triu"}


@register(aten.cumsum, aten.cumprod, aten.logcumsumexp, aten.cummax, aten.cummin, aten.flip, aten.roll)
def ordered(call: Call) -> Known | list[Known]:
    """What depends on the order of some units, mostly of frames; the other dims are treated one by one."""
    tensor = call["self"]
    asked = call.arguments.get("dim", call.arguments.get("dims"))
    every = range(tensor.dim())  # a roll without dims is one of the flattened tensor
    over = {d % max(tensor.dim(), 1) for d in ([asked] if isinstance(asked, int) else asked or every)}
    known = _ordered(call, over)
    return known if isinstance(call.result, Tensor) else [known] * len(call.result)


@register(aten.rot90)
def rotate(call: Call) -> Known:
    """Two dims turned by k quarters."""
    first, second = (d % call["self"].dim() for d in call["dims"])
    known = _ordered(call, {first, second})
    dims = list(known.dims)
    if call["k"] % 2:
        dims[first], dims[second] = dims[second], dims[first]
    return Known(dims, known.nature)


@register(aten.tril, aten.triu)
def triangle(call: Call) -> Known:
    """`'*before row column' -> '*before row column'`, with zeros above or below a diagonal."""
    return _ordered(call, {call["self"].dim() - 2, call["self"].dim() - 1})


@register(aten.diagonal)
def diagonal(call: Call) -> Known:
    """`'*others row column' -> '*others place'`."""
    tensor = call["self"]
    known = call.known(tensor)
    over = [call.dim("dim1", tensor), call.dim("dim2", tensor)]
    for d in over:
        call.lock(known.dims[d], f"{call.op} depends on the order of its units")
    kept = [dim for d, dim in enumerate(known.dims) if d not in over]
    return Known([*kept, call.fresh(call.result.shape[-1])], known.nature)


def _ordered(call: Call, over: set[int]) -> Known:
    known = call.known(call["self"])
    for d, dim in enumerate(known.dims):
        if d in over:
            call.lock(dim, f"{call.op} depends on the order of its units")
        elif call.op not in _LINEAR and known.nature is Nature.ACTIVATION:
            call.note(dim, f"pointwise:{'max' if call.op in ('cummax', 'cummin') else 'prod'}")
    if call.op not in _LINEAR and known.nature is Nature.WEIGHT:
        raise Unfollowable(f"a parameter passes {call.op} before it is used")
    return known
