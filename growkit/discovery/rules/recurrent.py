"""Sequences of unequal lengths, packed for recurrent layers, which themselves run as products and gates."""

from __future__ import annotations

import torch

from growkit.discovery.call import Call, Known
from growkit.discovery.rule_table import register

aten = torch.ops.aten


@register(aten._pack_padded_sequence)
def pack(call: Call) -> list[Known]:
    """`'time batch *features' -> 'steps *features', 'time'`, batch first or not."""
    known = call.known(call["input"])
    for dim in known.dims[:2]:
        if call.axes.named(dim):
            call.lock(dim, "sequences are packed over it")
    data, counts = call.result
    return [
        Known([call.fresh(data.shape[0]), *known.dims[2:]], known.nature),
        Known([call.fresh(counts.shape[0])], known.nature),
    ]
