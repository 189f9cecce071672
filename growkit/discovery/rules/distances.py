"""Scalar products, distances and forms in two activations."""

from __future__ import annotations

import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register

aten = torch.ops.aten


@register(aten.dot, aten.vdot)
def scalar_product(call: Call) -> Known:
    """`'k', 'k' -> ''`."""
    operands = [call.known(call[name]) for name in ("self", "tensor" if call.op == "dot" else "other")]
    natures = {known.nature for known in operands}
    call.tie(operands[0].dims[0], operands[1].dims[0])
    if natures == {Nature.ACTIVATION}:
        call.note(operands[0].dims[0], "contracted_activations")
    elif natures == {Nature.ACTIVATION, Nature.WEIGHT}:
        (held,) = (known for known in operands if known.nature is Nature.WEIGHT)
        call.axes.assign(held.dims[0], Role.CONSUMES)
    else:
        raise Unfollowable(f"a constant, or two parameters, pass {call.op}")
    return Known([], Nature.ACTIVATION)


@register(aten._cdist_forward, aten._euclidean_dist)
def distances(call: Call) -> Known:
    """`'*batch a k', '*batch b k' -> '*batch a b'`: new units of k would add to the distances."""
    first, second = (call[name] for name in ("x1", "x2"))
    dims: list[Dim] = []
    for tensor in (first, second):
        known = call.known(tensor)
        call.lock(known.dims[-1], "distances are taken over it, to which every unit adds")
        if known.nature is Nature.WEIGHT:
            call.axes.assign([node for node in known.dims[-2] if node.size != 1], Role.PRODUCES)
        elif known.nature is Nature.CONSTANT:
            raise Unfollowable(f"distances to a constant are taken by {call.op}")
        call.note(known.dims[-2], "pointwise:cdist")
        dims.append(known.dims[-2])
    a, b = (call.known(tensor).dims for tensor in (first, second))
    call.tie(a[-1], b[-1])
    batch = len(call.result.shape) - 2
    before: list[Dim] = []
    for back in range(batch + 2, 2, -1):
        found = [known[-back] for known in (a, b) if len(known) >= back and known[-back]]
        for other in found[1:]:
            call.tie(found[0], other)
        before.append(found[0] if found else [])
    return Known([*before, *dims], Nature.ACTIVATION)


@register(aten._trilinear)
def form(call: Call) -> Known:
    """Product of three tensors with dims put in, summed over some: `'batch i', 'out i j', 'batch j' -> 'batch out'`."""
    operands: list[tuple[Known, list[Dim | None]]] = []
    for number in ("1", "2", "3"):
        tensor: Tensor = call[f"i{number}"]
        known = call.known(tensor)
        dims: list[Dim | None] = list(known.dims)
        for at in sorted(call[f"expand{number}"]):
            dims.insert(at, None)
        operands.append((known, dims))
    natures = sorted(known.nature for known, _ in operands)
    if natures != [Nature.WEIGHT, Nature.ACTIVATION, Nature.ACTIVATION]:
        raise Unfollowable("a form other than of two activations and a parameter")
    result: list[Dim] = []
    for d in range(len(operands[0][1])):
        meeting = [(known, dims[d]) for known, dims in operands if dims[d]]
        for _, dim in meeting[1:]:
            call.tie(meeting[0][1] or [], dim or [])
        active = [dim for known, dim in meeting if known.nature is Nature.ACTIVATION]
        held = [dim for known, dim in meeting if known.nature is Nature.WEIGHT]
        summed = d in call["sumdim"]
        for dim in held:
            call.axes.assign(dim or [], Role.CONSUMES if summed else Role.GAIN if active else Role.PRODUCES)
        if len(active) == 2 and active[0]:
            call.note(active[0], "contracted_activations" if summed else "gate")
        if not summed:
            result.append((active or held or [[]])[0] or [])
        elif not held or not active:
            raise Unfollowable("a form that sums what only one of its factors has")
    return Known(result, Nature.ACTIVATION)
