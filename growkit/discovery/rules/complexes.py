"""Complex numbers and Fourier transforms."""

from __future__ import annotations

import torch

from growkit.axes.expressions import Role
from growkit.discovery.call import Call, Known, Nature
from growkit.discovery.derived import TERM
from growkit.discovery.rule_table import register
from growkit.discovery.rules.elementwise import combine

aten = torch.ops.aten
_PARTS = "it holds the real and the imaginary part"


@register(aten._fft_r2c, aten._fft_c2r, aten._fft_c2c)
def fourier(call: Call) -> Known:
    """A transform over some dims, mostly of frames: linear in all others."""
    tensor = call["self"]
    known = call.known(tensor)
    dims = list(known.dims)
    for d in (d % tensor.dim() for d in call["dim"]):
        call.lock(dims[d], "a Fourier transform runs over it")
        (dims[d],) = call.places([call.result.shape[d]])
    return Known(dims, known.nature)


@register(aten.view_as_real)
def as_real(call: Call) -> Known:
    """`'*dims' -> '*dims 2'`."""
    known = call.known(call["self"])
    parts = call.fresh(2)
    call.lock(parts, _PARTS)
    return Known([*known.dims, parts], known.nature)


@register(aten.view_as_complex)
def as_complex(call: Call) -> Known:
    """`'*dims 2' -> '*dims'`."""
    known = call.known(call["self"])
    call.lock(known.dims[-1], _PARTS)
    return Known(known.dims[:-1], known.nature)


@register(aten.complex)
def from_parts(call: Call) -> Known:
    """Real and imaginary parts: linear in both."""
    parts = [call["real"], call["imag"]]
    return combine(call, parts, call.result.shape, Role.PRODUCES, (TERM, TERM))


@register(aten.polar)
def from_length(call: Call) -> Known:
    """Numbers of a length and an angle: a function of both."""
    known = combine(call, [call["abs"], call["angle"]], call.result.shape, None)
    for dim in known.dims:
        if known.nature is Nature.ACTIVATION:
            call.note(dim, "pointwise:polar")
    return known
