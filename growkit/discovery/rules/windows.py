"""Ops that cut space or time into windows, or sample it at places: channels are treated one by one."""

from __future__ import annotations

import torch

from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known, Nature, Unfollowable
from growkit.discovery.rule_table import register

aten = torch.ops.aten
_COORDINATES = "it holds the coordinates of a place"


@register(aten.im2col)
def unfold(call: Call) -> Known:
    """`'*batch channels height width' -> '*batch (channels kernel) places'`."""
    known = _of_activations(call)
    kernel = call.fresh(call["kernel_size"][0] * call["kernel_size"][1])
    call.lock(kernel, "it counts the places of a window")
    _runs_over(call, known.dims[-2:])
    return Known([*known.dims[:-3], [*known.dims[-3], *kernel], *call.places(call.result.shape[-1:])], known.nature)


@register(aten.col2im)
def fold(call: Call) -> Known:
    """`'*batch (channels kernel) places' -> '*batch channels height width'`, sums where windows overlap."""
    known = _of_activations(call)
    channels, kernel = call.split(known.dims[-2], call.result.shape[-3])
    call.lock(kernel, "it counts the places of a window")
    _runs_over(call, known.dims[-1:])
    return Known([*known.dims[:-2], channels, *call.places(call.result.shape[-2:])], known.nature)


@register(aten.unfold)
def windows(call: Call) -> Known:
    """One dim becomes the windows in it, and the places in a window, which come last."""
    tensor = call["self"]
    known = call.known(tensor)
    d = call["dimension"] % tensor.dim()
    call.lock(known.dims[d], "windows are cut out of it")
    count, size = call.places([call.result.shape[d], call.result.shape[-1]])
    return Known([*known.dims[:d], count, *known.dims[d + 1 :], size], known.nature)


@register(aten.max_unpool2d, aten.max_unpool3d)
def unpool(call: Call) -> Known:
    """Each entry back to its place, zeros elsewhere."""
    known = _of_activations(call)
    count = 2 if call.op == "max_unpool2d" else 3
    for mine, theirs in zip(known.dims, call.known(call["indices"]).dims, strict=True):
        call.tie(mine, theirs)
    _runs_over(call, known.dims[-count:])
    return Known([*known.dims[:-count], *call.places(call.result.shape[-count:])], known.nature)


@register(aten.grid_sampler_2d, aten.grid_sampler_3d)
def sample(call: Call) -> Known:
    """`'batch channels *space', 'batch *places coordinate' -> 'batch channels *places'`: linear in each channel."""
    known, grid = call.known(call["input"]), call.known(call["grid"])
    if known.nature is Nature.WEIGHT or grid.nature is Nature.WEIGHT:
        raise Unfollowable(f"a parameter passes {call.op} before it is used")
    call.tie(known.dims[0], grid.dims[0])
    call.lock(grid.dims[-1], _COORDINATES)
    _runs_over(call, known.dims[2:])
    return Known([*known.dims[:2], *grid.dims[1:-1]], max(known.nature, grid.nature))


@register(aten.affine_grid_generator)
def grid(call: Call) -> Known:
    """`'batch coordinate column' -> 'batch *places coordinate'`."""
    known = call.known(call["theta"])
    for dim in known.dims[1:]:
        call.lock(dim, _COORDINATES)
    coordinates = call.fresh(call.result.shape[-1])
    call.lock(coordinates, _COORDINATES)
    return Known([known.dims[0], *call.places(call.result.shape[1:-1]), coordinates], known.nature)


def _of_activations(call: Call) -> Known:
    known = call.known(call["self"])
    if known.nature is Nature.WEIGHT:
        raise Unfollowable(f"a parameter passes {call.op} before it is used")
    return known


def _runs_over(call: Call, dims: list[Dim]) -> None:
    for dim in dims:
        if call.axes.named(dim):
            call.lock(dim, f"{call.op} runs over it")
