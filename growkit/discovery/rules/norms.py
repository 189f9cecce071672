"""Normalisation."""

from __future__ import annotations

import torch

from growkit.axes.expressions import Role
from growkit.discovery.call import Call, Known
from growkit.discovery.rule_table import register

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
    return [known]
