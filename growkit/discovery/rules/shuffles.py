"""Ops that move units between channels and space, or among channels."""

from __future__ import annotations

import torch

from growkit.axes.node import Dim
from growkit.discovery.call import Call, Known
from growkit.discovery.rule_table import register

aten = torch.ops.aten


@register(aten.pixel_shuffle)
def pixel_shuffle(call: Call) -> Known:
    """`'*before (channels r r) h w' -> '*before channels (h r) (w r)'`: a new channel comes as r * r of them."""
    known = call.known(call["self"])
    channels, places = call.split(known.dims[-3], call.result.shape[-3])
    call.lock(places, "it counts the places of a pixel shuffle")
    return Known([*known.dims[:-3], channels, *_space(call, known)], known.nature)


@register(aten.pixel_unshuffle)
def pixel_unshuffle(call: Call) -> Known:
    """`'*before channels (h r) (w r)' -> '*before (channels r r) h w'`."""
    known = call.known(call["self"])
    places = call.fresh(call["downscale_factor"] ** 2)
    call.lock(places, "it counts the places of a pixel shuffle")
    return Known([*known.dims[:-3], [*known.dims[-3], *places], *_space(call, known)], known.nature)


@register(aten.channel_shuffle, aten.native_channel_shuffle)
def channel_shuffle(call: Call) -> Known:
    """`'batch (groups channels) *space' -> 'batch (channels groups) *space'`."""
    known = call.known(call["self"])
    groups, channels = call.split(known.dims[1], call["groups"])
    return Known([known.dims[0], [*channels, *groups], *known.dims[2:]], known.nature)


def _space(call: Call, known: Known) -> list[Dim]:
    for dim in known.dims[-2:]:
        if call.axes.named(dim):
            call.lock(dim, f"{call.op} runs over it")
    return call.places(call.result.shape[-2:])
