"""Convolutions: plain, depthwise, grouped, transposed, over any number of dims."""

from __future__ import annotations

import torch

from growkit.axes.expressions import Role
from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register

aten = torch.ops.aten


@register(aten.convolution, aten._convolution)
def convolution(call: Call) -> Known:
    """`'batch in *space', 'out in *kernel' -> 'batch out *space'`; transposed, the weight is `'in out *kernel'`.

    With groups: `'batch (groups in) *space', '(groups out) in *kernel' -> 'batch (groups out) *space'`, transposed
    `'(groups in) out *kernel'`. Each group has a kernel of its own, which is a gain of the group; in a depthwise
    convolution `in` is one unit.
    """
    x, weight, groups = call["input"], call["weight"], call["groups"]
    entering, kernel = call.known(x), call.known(weight)
    if kernel.nature is not Nature.WEIGHT or entering.nature is Nature.WEIGHT:
        raise Unfollowable("a convolution whose kernel is no parameter")
    first, second = kernel.dims[:2]
    if groups == 1:
        read, out = (first, second) if call["transposed"] else (second, first)
        call.tie(entering.dims[1], read)
    else:
        entering_group, entering_read = call.split(entering.dims[1], groups)
        group, rest = call.split(first, groups)
        read, out = (rest, second) if call["transposed"] else (second, rest)
        # a factor of one unit in a grouped kernel is no axis
        read, out = ([node for node in dim if node.size != 1] for dim in (read, out))
        call.tie(entering_group, group)
        call.tie(entering_read, read)
        call.axes.assign(group, Role.GAIN)
        call.note(group, "grouped_conv" if entering_read else "depthwise_conv")
    call.axes.assign(read, Role.CONSUMES)
    call.axes.assign(out, Role.PRODUCES)
    if groups != 1:
        out = [*group, *out]
    call.attach(call["bias"], [out], Role.PRODUCES)
    for size, dim in zip(weight.shape[2:], kernel.dims[2:], strict=True):
        if size != 1:
            call.lock(dim, "it counts the places of a convolution kernel")
    for dim in entering.dims[2:]:
        if call.axes.named(dim):
            call.lock(dim, "a convolution runs over it")
    return Known([entering.dims[0], out, *call.places(call.result.shape[2:])], Nature.ACTIVATION)
