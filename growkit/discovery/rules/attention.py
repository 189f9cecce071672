"""Attention kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature
from growkit.discovery.rule_table import register
from growkit.discovery.rules.elementwise import lock_table

aten = torch.ops.aten


@register(
    aten._scaled_dot_product_flash_attention_for_cpu, aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_efficient_attention, aten._scaled_dot_product_cudnn_attention,
    aten._scaled_dot_product_fused_attention_overrideable,
)  # fmt: skip
def attention(call: Call) -> list[Known]:
    """`'batch (heads group) to qk', 'batch heads from qk', 'batch heads from v' -> 'batch (heads group) to v'`.

    Each key head serves a group of query heads that lie beside each other (Ainslie et al. 2023, GQA, arXiv 2305.13245).
    What else the kernel gives, such as the sums of its softmax, has no known axes.
    """
    q, k, v = (call.known(call[name]) for name in ("query", "key", "value"))
    for other in (k, v):
        call.tie(q.dims[0], other.dims[0])
        heads, group = call.split(q.dims[1], _size(other.dims[1]))
        call.tie(heads, other.dims[1])
        call.note([*heads, *group], "per_head")
    call.tie(k.dims[2], v.dims[2])
    call.tie(q.dims[3], k.dims[3])
    call.note(q.dims[3], "contracted_activations")
    call.note(k.dims[2], "softmax")
    if call["is_causal"] and call.axes.named(q.dims[2]):
        call.lock(q.dims[2], "a causal mask goes by the order of its units")
    mask = call.arguments.get("attn_mask", call.arguments.get("attn_bias"))
    if isinstance(mask, Tensor):
        _mask(call, mask, (q.dims[0], q.dims[1], q.dims[2], k.dims[2]))
    first, *others = (x for x in call.result if isinstance(x, Tensor))
    assert first.dim() == 4
    made = [Known([call.fresh(size) for size in x.shape], Nature.ACTIVATION) for x in others]
    return [Known([q.dims[0], q.dims[1], q.dims[2], v.dims[3]], Nature.ACTIVATION), *made]


def _mask(call: Call, mask: Tensor, scores: tuple[Dim, ...]) -> None:
    """Ties what is added to the scores; a parameter among it writes them, head by head."""
    known = call.known(mask)
    dims = zip(reversed(mask.shape), reversed(known.dims), reversed(scores), strict=False)
    for back, (size, mine, theirs) in enumerate(dims, start=1):
        if size != 1:
            lock_table(call, theirs, mask, mine, back)
            call.tie(theirs, mine)
            if known.nature is not Nature.ACTIVATION:
                call.axes.assign(mine, Role.PRODUCES)


def _size(dim: Dim) -> int:
    size = 1
    for node in dim:
        size *= node.size
    return size
