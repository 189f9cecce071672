"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature
from growkit.discovery.rule_table import register
from growkit.discovery.rules.elementwise import through_function

aten = torch.ops.aten


@register(aten.native_layer_norm, aten._fused_rms_norm)
def layer_norm(call: Call) -> list[Known]:
    """`'*before *features'`, statistics over the features."""
    kind = "layer_norm" if call.op == "native_layer_norm" else "rms_norm"
    known = call.known(call["input"])
    count = len(call["normalized_shape"])
    before, features = known.dims[:-count], known.dims[-count:]
    for dim in features:
        call.note(dim, kind)
    for dim in before:
        call.note(dim, f"pointwise:{kind}")
    call.attach(call["weight"], features, Role.GAIN)
    call.attach(call.arguments.get("bias"), features, Role.BIAS)
    if known.nature is Nature.WEIGHT:
        known = through_function(call, known)
    statistics = Known([*before, *([] for _ in features)], known.nature)
    return [known] + [statistics] * (len(call.result) - 1)


@register(
    aten.native_batch_norm, aten._native_batch_norm_legit, aten._native_batch_norm_legit_no_training,
    aten.cudnn_batch_norm,
)  # fmt: skip
def batch_norm(call: Call) -> list[Known]:
    """`'batch channels *space'`, statistics of each channel."""
    known = call.known(call["input"])
    channels = known.dims[1:2]
    call.note(channels[0], "batch_norm")
    call.attach(call["weight"], channels, Role.GAIN)
    call.attach(call["bias"], channels, Role.BIAS)
    call.attach(call.arguments.get("running_mean"), channels, Role.MEAN)
    call.attach(call.arguments.get("running_var"), channels, Role.VARIANCE)
    if known.nature is Nature.WEIGHT:
        return [_standardised(call, known, known.dims[:1] + known.dims[2:])]
    return [known]


@register(aten.native_group_norm)
def group_norm(call: Call) -> list[Known]:
    """`'batch (groups channels) *space'`, statistics of each group, over channels and space."""
    known = call.known(call["input"])
    groups, channels = call.split(known.dims[1], call["group"])
    call.note(groups, "norm_groups")
    for dim in (channels, *known.dims[2:]):
        call.note(dim, "group_norm")
    call.attach(call["weight"], known.dims[1:2], Role.GAIN)
    call.attach(call["bias"], known.dims[1:2], Role.BIAS)
    if known.nature is Nature.WEIGHT:
        return [_standardised(call, known, [channels, *known.dims[2:]])]
    return [known]


def _standardised(call: Call, known: Known, over: Sequence[Dim]) -> Known:
    """A parameter, standardised over some of its dims: each value counts in the statistics, whatever its role is."""
    for dim in over:
        if call.axes.named(dim):
            call.lock(dim, f"a parameter passes {call.op}, with statistics over it, before it is used")
    return through_function(call, known)
