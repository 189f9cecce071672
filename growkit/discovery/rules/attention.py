"""Attention kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register

aten = torch.ops.aten


@register(
    aten._scaled_dot_product_flash_attention_for_cpu, aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_efficient_attention, aten._scaled_dot_product_cudnn_attention,
)  # fmt: skip
def attention(call: Call) -> list[Known]:
    """`'batch heads to qk', 'batch heads from qk', 'batch heads from v' -> 'batch heads to v'`."""
    if call["query"].shape[1] != call["key"].shape[1]:
        raise Unfollowable("attention with fewer key heads than query heads")
    q, k, v = (call.known(call[name]) for name in ("query", "key", "value"))
    for other in (k, v):
        call.tie(q.dims[0], other.dims[0])
        call.tie(q.dims[1], other.dims[1])
    call.tie(k.dims[2], v.dims[2])
    call.tie(q.dims[3], k.dims[3])
    call.note(q.dims[1], "per_head")
    call.note(q.dims[3], "contracted_activations")
    call.note(k.dims[2], "softmax")
    mask = call.arguments.get("attn_mask", call.arguments.get("attn_bias"))
    if isinstance(mask, Tensor):
        known = call.known(mask)
        for size, mine, theirs in zip(
            reversed(mask.shape), reversed(known.dims), (k.dims[2], q.dims[2], q.dims[1], q.dims[0]), strict=False
        ):
            if size != 1:
                call.tie(theirs, mine)
    return [Known([q.dims[0], q.dims[1], q.dims[2], v.dims[3]], Nature.ACTIVATION)]
