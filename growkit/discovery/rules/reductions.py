"""Ops that reduce dims."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from growkit.discovery.call import DECLARE, Call, Known, Nature
from growkit.discovery.derived import TERM, Normed
from growkit.discovery.rule_table import register
from growkit.discovery.rules.elementwise import combine

aten = torch.ops.aten
_LINEAR = {"sum", "mean"}
_VARIANCES = {"var", "std", "var_mean", "std_mean"}
_COUNTING = _VARIANCES | {"sum", "prod", "logsumexp", "linalg_vector_norm"}


@register(
    aten.sum, aten.mean, aten.amax, aten.amin, aten.var, aten.std, aten.prod, aten.logsumexp, aten.linalg_vector_norm,
    aten.all, aten.any, aten.var_mean, aten.std_mean, aten.argmax, aten.argmin, aten.max, aten.min,
)  # fmt: skip
def reduce(call: Call) -> Known | list[Known]:
    """One value for all units of some dims."""
    tensor = call["self"]
    if isinstance(call.arguments.get("other"), Tensor):  # max of two tensors
        return combine(call, [tensor, call["other"]], call.result.shape, None)
    known = call.known(tensor)
    asked = call.arguments.get("dim")
    if isinstance(asked, int):
        asked = [asked]
    gone = {d % max(tensor.dim(), 1) for d in (asked or range(tensor.dim()))}
    dims = []
    for d, dim in enumerate(known.dims):
        if d not in gone:
            dims.append(dim)
            if known.nature is Nature.ACTIVATION and call.op not in _LINEAR:
                call.note(dim, f"pointwise:{call.op}")
        else:
            if call.arguments.get("keepdim"):
                dims.append([])
            if known.nature is Nature.ACTIVATION:
                call.note(dim, "reduce:variance" if _is_biased(call) else f"reduce:{call.op}")
            elif known.nature is Nature.CONSTANT and call.op in _COUNTING and tensor.any():
                call.note(dim, "size_as_number")  # what the forward pass makes, or a buffer, counts the units
    if known.nature is Nature.WEIGHT:
        _of_parameter(call, known, gone)
        dims = [call.derive((dim, TERM if call.op in _LINEAR else call.op)) if dim else [] for dim in dims]
    count = 1 if isinstance(call.result, Tensor) else len(call.result)
    return [Known(dims, known.nature)] * count


def _is_biased(call: Call) -> bool:
    """Whether a variance is divided by the number of units, as that of a norm, not by one less."""
    asked = call.arguments
    return call.op in _VARIANCES and (asked.get("correction") == 0 or asked.get("unbiased") is False)


def _of_parameter(call: Call, known: Known, gone: Collection[int]) -> None:
    reduced = [known.dims[d] for d in sorted(gone)]
    if call.op == "linalg_vector_norm" and call.arguments.get("ord", 2) == 2:
        call.derived.normed.append(Normed(tuple(reduced), call.where))
    else:
        for dim in reduced:
            call.lock(dim, f"a parameter is reduced by {call.op} before it is used", DECLARE)


@register(aten._softmax, aten._log_softmax, aten._safe_softmax)
def softmax(call: Call) -> Known:
    """Softmax over one dim."""
    tensor = call["self"]
    known = call.known(tensor)
    over = call.dim("dim", tensor)
    for d, dim in enumerate(known.dims):
        call.note(dim, "softmax" if d == over else "pointwise:softmax")
        if known.nature is Nature.WEIGHT:
            call.lock(dim, "a parameter passes a softmax before it is used", DECLARE)
    return known
