"""Parameters that are divided by a norm of theirs before they are used."""

from __future__ import annotations

import torch

from growkit.discovery.call import Call, Known, Nature
from growkit.discovery.derived import FACTOR, TERM, Normed
from growkit.discovery.rule_table import register

aten = torch.ops.aten


@register(aten._weight_norm_interface, aten._weight_norm)
def weight_norm(call: Call) -> list[Known] | Known:
    """`g * v / |v|`: one g for each unit of `dim`, the norm over all other dims.

    Along `dim` g takes the role, since the scale of v has no effect.

    Source: Salimans and Kingma 2016, Weight Normalization (arXiv 1602.07868), eq. 2.
    """
    direction, size = call.known(call["v"]), call.known(call["g"])
    kept = call.dim("dim", call["v"])
    dims = []
    for d, dim in enumerate(direction.dims):
        if d == kept and size.dims[d]:
            call.tie(dim, size.dims[d])
            dims.append(call.derive((size.dims[d], TERM), (dim, FACTOR)))
        else:
            dims.append(call.derive((dim, TERM)))
    over = tuple(dim for d, dim in enumerate(direction.dims) if d != kept)
    call.derived.normed.append(Normed(over, call.where, id(call["g"]), size.dims[kept]))
    made, norms = Known(dims, Nature.WEIGHT), Known(size.dims, Nature.WEIGHT)  # the norms are for the backward pass
    return made if call.op == "_weight_norm" else [made, norms]
