"""Ops over space that treat channels one by one: pooling, resizing, padding by entries."""

from __future__ import annotations

import torch

from growkit.discovery.call import Call, Known, Nature
from growkit.discovery.derived import TERM
from growkit.discovery.rule_table import register

aten = torch.ops.aten


@register(
    aten.avg_pool1d, aten.avg_pool2d, aten.avg_pool3d, aten._adaptive_avg_pool2d, aten._adaptive_avg_pool3d,
    aten.adaptive_avg_pool1d, aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d,
    aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d, aten._upsample_nearest_exact3d,
    aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d, aten.upsample_bicubic2d,
    aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa, aten.reflection_pad1d, aten.reflection_pad2d,
    aten.reflection_pad3d, aten.replication_pad1d, aten.replication_pad2d, aten.replication_pad3d,
)  # fmt: skip
def linear_over_space(call: Call) -> Known:
    """`'*before *space' -> '*before *space'` at another size, linear in the entries."""
    return _over_space(call, call.result, TERM)


@register(
    aten.max_pool2d_with_indices, aten.max_pool3d_with_indices, aten.adaptive_max_pool2d, aten.adaptive_max_pool3d,
)  # fmt: skip
def max_over_space(call: Call) -> list[Known]:
    """The largest entry around each place, and where it was: copies pass, scales do not."""
    known = _over_space(call, call.result[0], call.op)
    for dim in known.dims:
        call.note(dim, "pointwise:max_pool")
    return [known, known]


def _over_space(call: Call, result: torch.Tensor, through: str) -> Known:
    tensor = call["self" if "self" in call.arguments else "input"]
    known = call.known(tensor)
    count = next(int(digit) for digit in call.op if digit.isdigit())
    for dim in known.dims[-count:]:
        if call.axes.named(dim):
            call.lock(dim, f"{call.op} runs over it")
    before = known.dims[:-count]
    if known.nature is Nature.WEIGHT:
        before = [call.derive((dim, through)) if dim else dim for dim in before]
    return Known([*before, *call.places(result.shape[-count:])], known.nature)
