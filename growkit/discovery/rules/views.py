"""Ops that give the same entries another shape."""

from __future__ import annotations

import torch

from growkit.axes.node import Dim
from growkit.axes.reshape import reshape
from growkit.discovery.call import Call, Known
from growkit.discovery.rule_table import register

aten = torch.ops.aten


@register(aten.view, aten._unsafe_view, aten.reshape, aten._reshape_alias, aten.view_copy)
def view(call: Call) -> Known:
    """The same entries in another shape."""
    tensor = call["self"]
    known = call.known(tensor)
    if "size" not in call.arguments:  # another dtype of the same bytes
        return known
    dims = reshape(call.axes, known.dims, tensor.shape, call.result.shape, call.where)
    return Known(dims, known.nature)


@register(aten.t, aten.transpose, aten.permute)
def permute(call: Call) -> Known:
    """Dims in another order."""
    tensor = call["self"]
    known = call.known(tensor)
    order = list(range(tensor.dim()))
    if call.op == "t":
        order.reverse()
    elif call.op == "transpose":
        a, b = call.dim("dim0", tensor), call.dim("dim1", tensor)
        order[a], order[b] = order[b], order[a]
    else:
        order = [d % tensor.dim() for d in call["dims"]]
    return Known([known.dims[d] for d in order], known.nature)


@register(aten.unsqueeze)
def unsqueeze(call: Call) -> Known:
    """A new dim of one unit."""
    known = call.known(call["self"])
    at = call["dim"] % (len(known.dims) + 1)
    return Known([*known.dims[:at], [], *known.dims[at:]], known.nature)


@register(aten.squeeze)
def squeeze(call: Call) -> Known:
    """Without dims of one unit."""
    known = call.known(call["self"])  # the tensor itself may be squeezed already
    rank = len(known.dims)
    asked = call.arguments.get("dim", range(rank))
    gone = {d % max(rank, 1) for d in ([asked] if isinstance(asked, int) else asked)}
    kept = [dim for d, dim in enumerate(known.dims) if d not in gone or any(node.size != 1 for node in dim)]
    return Known(kept, known.nature)


@register(aten.expand)
def expand(call: Call) -> Known:
    """Dims of one unit repeated without copying."""
    tensor = call["self"]
    known = call.known(tensor)
    added = call.result.dim() - tensor.dim()
    dims = []
    for d, size in enumerate(call.result.shape):
        broadcast = d < added or tensor.shape[d - added] != size
        dims.append(call.fresh(size) if broadcast else known.dims[d - added])
    return Known(dims, known.nature)


@register(aten.repeat)
def repeat(call: Call) -> Known:
    """`'a' -> '(times a)'`."""
    known = call.known(call["self"])
    times = call["repeats"]
    padded: list[Dim] = [[] for _ in range(len(times) - len(known.dims))] + known.dims
    return Known([call.fresh(n) + dim for n, dim in zip(times, padded, strict=True)], known.nature)


@register(aten.as_strided)
def as_strided(call: Call) -> Known:
    """Leading dims that stay as they are keep their axes; behind them only axes that no tensor holds may lie."""
    tensor, result = call["self"], call.result
    known = call.known(tensor)
    same = 0
    while same < min(tensor.dim(), result.dim()) and (
        (tensor.shape[same], tensor.stride(same)) == (result.shape[same], result.stride(same))
    ):
        same += 1
    for dim in known.dims[same:]:
        if call.axes.named(dim):
            call.lock(dim, "entries are picked by stride")
    return Known(known.dims[:same] + [call.fresh(size) for size in result.shape[same:]], known.nature)
