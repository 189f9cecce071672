"""Ops that treat each entry by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.expressions import Role
from growkit.axes.node import Dim
from growkit.discovery.call import DECLARE, OTHERS, Call, Known, Nature
from growkit.discovery.derived import FACTOR, SHIFTED, TERM
from growkit.discovery.rule_table import register, register_tagged

aten = torch.ops.aten
TABLE = "it meets a table that the forward pass makes, with a value of its own for each unit"


@register(
    aten.clone,
    aten.detach,
    aten.alias,
    aten.lift_fresh,
    aten._to_copy,
    aten._conj,
    aten._conj_physical,
    aten.conj_physical,
    aten.resolve_conj,
    aten._neg_view,
    aten.resolve_neg,
    aten.neg,
    aten.positive,
    aten.dropout,
)
def as_it_is(call: Call) -> Known:
    """Linear, and nothing changes but values: the same axes."""
    known = call.known(call["self"] if "self" in call.arguments else call["input"])
    return Known(known.dims, known.nature)


@register_tagged(torch.Tag.pointwise)
@register(aten.hardswish, aten.log_sigmoid_forward, aten.floor_divide)  # torch does not say so of these
def nonlinear(call: Call) -> Known | list[Known]:
    """A function of each entry: copies pass, scales do not."""
    tensors = [x for x in call.arguments.values() if isinstance(x, Tensor)]
    first = call.result if isinstance(call.result, Tensor) else call.result[0]
    known = combine(call, tensors, first.shape, Role.GAIN)
    if known.nature is not Nature.ACTIVATION:
        return through_function(call, known) if any(map(call.axes.named, known.dims)) else known
    power = call.arguments.get("exponent")
    name = "power" if call.op == "pow" and isinstance(power, int | float) and power > 0 else call.op
    for dim in known.dims:
        call.note(dim, f"pointwise:{name}")
    return known


def through_function(call: Call, known: Known) -> Known:
    """A function of each entry of a parameter, or of entries that stand in one line with it."""
    return Known([call.derive((dim, call.op)) for dim in known.dims], known.nature)


@register(aten.add, aten.sub, aten.rsub)
def sums(call: Call) -> Known:
    """Sums: parameters are added to activations, activations to one another."""
    tensors = _operands(call)
    known = combine(call, tensors, call.result.shape, Role.PRODUCES, (TERM, TERM))
    for dim in _shared_by_activations(call, tensors, known):
        call.note(dim, "residual")
    terms = [call["self"], call["other"]]
    if known.nature is Nature.ACTIVATION:
        _bring(call, tensors, known)
        note_shifts(call, known, terms)
    elif known.nature is Nature.WEIGHT:
        return shifted(call, known, terms)
    return known


def note_shifts(call: Call, known: Known, terms: Sequence[Any]) -> None:
    """Notes the dims along which a term of a sum adds something to new units that no parameter holds unit by unit."""
    for d in _shifts(call, known, terms):
        call.note([node for node in known.dims[d] if node.size != 1], "shifted")


def shifted(call: Call, known: Known, terms: Sequence[Any]) -> Known:
    """The same for a sum of parameters."""
    changed = set(_shifts(call, known, terms))
    dims = [call.derive((dim, SHIFTED)) if d in changed else dim for d, dim in enumerate(known.dims)]
    return Known(dims, known.nature)


def _shifts(call: Call, known: Known, terms: Sequence[Any]) -> Iterator[int]:
    rank = len(known.dims)
    for term in terms:
        if not isinstance(term, Tensor):
            broadcast = [True] * rank if term != 0 else []
        elif call.known(term).nature is not Nature.CONSTANT:
            broadcast = [bool(dim) and r for dim, r in zip(known.dims, _repeated(term, rank), strict=True)]
        elif term.any():
            broadcast = [term.dim() < back or not varies(term, back) for back in range(rank, 0, -1)]
        else:
            continue
        yield from (d for d, same in enumerate(broadcast) if same)


def _repeated(term: Tensor, rank: int) -> list[bool]:
    """For each dim of a sum, whether a term is the same for all its units: it has none there, or one many times."""
    absent = [True] * (rank - term.dim())
    shape = list(zip(term.shape, term.stride(), strict=True))
    alone = [size == 1 or stride == 0 for size, stride in shape]
    if all(alone) or isinstance(term, nn.Parameter) or not term.numel():
        return absent + alone
    corners = term.as_strided((2,) * len(shape), [(size - 1) * stride for size, stride in shape]).tolist()
    return absent + [
        # the corners tell most dims along which it varies
        one or not (_differ(corners, d) or varies(term, len(shape) - d) or not term.any())
        for d, one in enumerate(alone)
    ]


def _differ(corners: Any, d: int) -> bool:
    """Whether two entries at both ends of a dim differ, of lists of two for each dim."""
    return corners[0] != corners[1] if d == 0 else any(_differ(inner, d - 1) for inner in corners)


@register(aten.mul)
def products(call: Call) -> Known:
    """Products: gains, or gates of two activations."""
    tensors = _operands(call)
    if len(tensors) == 2 and tensors[0] is tensors[1] and call.nature(tensors) is Nature.WEIGHT:
        return Known([call.derive((dim, "square")) for dim in call.known(tensors[0]).dims], Nature.WEIGHT)
    known = combine(call, tensors, call.result.shape, Role.GAIN, (TERM, FACTOR))
    kind = "pointwise:square" if len(tensors) == 2 and tensors[0] is tensors[1] else "gate"
    for dim in _shared_by_activations(call, tensors, known):
        call.note(dim, kind)
    _bring(call, tensors, known)
    return known


def _bring(call: Call, tensors: Sequence[Tensor], known: Known) -> None:
    """Dims that a parameter brings into a sum or product with an activation, as in `x[..., None] * w`."""
    natures = [call.known(x).nature for x in tensors]
    if known.nature is not Nature.ACTIVATION or natures.count(Nature.ACTIVATION) == len(natures):
        return
    active = [x for x, nature in zip(tensors, natures, strict=True) if nature is Nature.ACTIVATION]
    for tensor in (x for x, nature in zip(tensors, natures, strict=True) if nature is not Nature.ACTIVATION):
        for back, dim in enumerate(reversed(call.known(tensor).dims), start=1):
            brought = tensor.shape[-back] != 1 and all(x.dim() < back or x.shape[-back] == 1 for x in active)
            if brought and call.axes.named(dim):
                call.axes.assign(dim, Role.PRODUCES)


@register(aten._prelu_kernel)
def prelu(call: Call) -> Known:
    """A slope for the negative entries of each unit."""
    known = combine(call, [call["self"], call["weight"]], call.result.shape, Role.GAIN)
    for dim in known.dims:
        call.note(dim, "pointwise:prelu")
    return known


@register(aten.div)
def quotients(call: Call) -> Known:
    """Quotients: as products where the divisor is no activation."""
    tensors = _operands(call)
    known = combine(call, tensors, call.result.shape, Role.GAIN, (TERM, FACTOR))
    divisor = call["other"]
    if known.nature is Nature.WEIGHT:
        return known if _divided(call) else through_function(call, known)
    if call.arguments.get("rounding_mode"):
        for dim in known.dims:
            call.note(dim, "pointwise:div")
    elif isinstance(divisor, Tensor) and call.known(divisor).nature is Nature.ACTIVATION:
        for size, dim in zip(reversed(divisor.shape), reversed(known.dims), strict=False):
            if size != 1:
                call.note(dim, "pointwise:div")
    return known


@register(aten.masked_fill)
def masked_fill(call: Call) -> Known:
    """Some entries become a number."""
    payload, mask, value = call["self"], call["mask"], call["value"]
    known = combine(call, [payload, mask], call.result.shape, Role.PRODUCES)
    if isinstance(value, Tensor) and value.dim() == 0:
        value = value.item()
    if value != 0:
        for dim in known.dims:
            call.note(dim, "pointwise:masked_fill")
    return known


@register(aten.where)
def where(call: Call) -> Known:
    """Each entry from one of two tensors."""
    tensors = [call["condition"], *_operands(call)]
    known = combine(call, tensors, call.result.shape, Role.PRODUCES)
    for dim in known.dims:
        call.note(dim, "pointwise:where")
    return known


@register(
    aten.zeros_like, aten.ones_like, aten.full_like, aten.empty_like, aten.rand_like, aten.randn_like,
)  # fmt: skip
def like(call: Call) -> Known:
    """A constant of the shape of another tensor."""
    dims = []
    for size, dim in zip(call.result.shape, call.known(call["self"]).dims, strict=True):
        mine = call.fresh(size)  # an occurrence of its own: roles of the constant are not those of the model tensor
        call.tie(mine, dim)
        dims.append(mine)
    return Known(dims, Nature.CONSTANT)


@register(
    aten.new_zeros, aten.new_ones, aten.new_full, aten.new_empty, aten._local_scalar_dense, aten.equal,
    aten.is_same_size, aten._assert_async, aten._assert_tensor_metadata, aten.bernoulli, aten.bernoulli_,
)  # fmt: skip
def nothing(call: Call) -> None:
    """The result has no known axes, or is no tensor."""
    return None


def _operands(call: Call) -> list[Tensor]:
    return [x for x in (call["self"], call["other"]) if isinstance(x, Tensor)]


def _shared_by_activations(call: Call, tensors: Sequence[Tensor], known: Known) -> list[Dim]:
    """The dims that two activations have in full."""
    active = [x for x in tensors if call.known(x).nature is Nature.ACTIVATION]
    if len(active) < 2:
        return []
    first, second = active
    common = zip(reversed(first.shape), reversed(second.shape), reversed(known.dims), strict=False)
    return [dim for one, other, dim in common if one != 1 and other != 1]


def _divided(call: Call) -> bool:
    """Whether all that divides a parameter lies along dims of this parameter."""
    upper, lower = call["self"], call["other"]
    if call.arguments.get("rounding_mode"):
        return False
    if not isinstance(lower, Tensor):
        return True
    dims = call.known(upper).dims if isinstance(upper, Tensor) else []
    return all(back <= len(dims) and call.axes.named(dims[-back])
               for back, size in enumerate(reversed(lower.shape), start=1) if size != 1)  # fmt: skip


def combine(
    call: Call, tensors: Sequence[Tensor], shape: Sequence[int], role: Role | None, throughs: Sequence[str] = ()
) -> Known:
    """Broadcasts: ties the dims that meet; parameters and buffers that meet an activation get `role`.

    `throughs`: how the result depends on each tensor if it is made of parameters alone; empty where that is not known.
    """
    infos = [(x, call.known(x)) for x in tensors]
    if len(infos) == 1 and infos[0][0].shape == shape:  # it meets nothing
        return Known(list(infos[0][1].dims), infos[0][1].nature)
    dims: list[Dim] = []
    active = [known.dims for x, known in infos if known.nature is Nature.ACTIVATION and x.shape == shape]
    if active and len(active) == len(infos):  # they meet in every dim
        for size, first, *others in zip(shape, *active, strict=True):
            for dim in others if size != 1 else ():
                call.tie(first, dim)
            dims.append(first or next(filter(None, others), []))
        return Known(dims, Nature.ACTIVATION)
    ways = {id(x): through for x, through in zip(reversed(tensors), reversed(throughs), strict=False)}
    for back in range(len(shape), 0, -1):
        meeting = [(x, k, k.dims[-back]) for x, k in infos if x.dim() >= back and x.shape[-back] != 1]
        if meeting:
            dims.append(_meet(call, meeting, back, role, ways))
        else:
            ones = [k.dims[-back] for x, k in infos if x.dim() >= back]
            dims.append(next((dim for dim in ones if dim), []))
    return Known(dims, max((known.nature for _, known in infos), default=Nature.CONSTANT))


def _meet(
    call: Call, meeting: Sequence[tuple[Tensor, Known, Dim]], back: int, role: Role | None, ways: Mapping[int, str]
) -> Dim:
    active = [dim for _, k, dim in meeting if k.nature is Nature.ACTIVATION]
    if len(active) == len(meeting):
        for dim in active[1:]:
            call.tie(active[0], dim)
        return active[0]
    others = [(x, k, dim) for x, k, dim in meeting if k.nature is not Nature.ACTIVATION]
    held = [(x, k, dim) for x, k, dim in others if call.axes.named(dim)]
    tables = [dim for x, _, dim in others if not call.axes.named(dim) and varies(x, back)]
    first = (active or [dim for *_, dim in held] or [meeting[0][2]])[0]
    for *_, dim in meeting:
        if dim is not first:
            call.tie(first, dim)
    if active and role:
        for *_, dim in held:
            call.axes.assign(dim, role)
    if (active or held) and tables:
        call.lock(first, TABLE, OTHERS)
    if not active and len(held) > 1 and any(k.nature is Nature.WEIGHT for _, k, _ in held):
        if all(id(x) in ways for x, *_ in held):
            return call.derive(*((dim, ways[id(x)]) for x, _, dim in held))
        call.lock(first, f"parameters are combined by {call.op} before they are used", DECLARE)
    return first


def lock_table(call: Call, met: Dim, table: Tensor, dim: Dim, back: int) -> None:
    """Locks axes that meet, at a dim counted from the back, a tensor that the forward pass makes of other things."""
    made = call.known(table).nature is Nature.CONSTANT and not call.axes.named(dim)
    if made and call.axes.named(met) and varies(table, back):
        call.lock(met, TABLE, OTHERS)


def varies(tensor: Tensor, back: int) -> bool:
    """Whether the values differ along a dim."""
    return bool(tensor.numel()) and not torch.equal(tensor, tensor.narrow(-back, 0, 1).expand_as(tensor))
