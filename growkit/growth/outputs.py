"""What a model gives, as tensors, and how far two such results are apart."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from growkit.discovery.inputs import leaves_in
from growkit.errors import InputsError

Outputs = list[Tensor]

_GAP = 3
"""Decades without any entry that part numbers put in by hand, such as -1e9 for masked places, from computed ones."""


def floats_in(result: Any) -> Outputs:
    """The floating-point tensors of a result, wherever `discover` looks for outputs; complex ones as pairs of reals."""
    reals = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in leaves_in(result)]
    return [t for t in reals if t.is_floating_point()]


def old_part(old: Tensor, new: Tensor) -> Tensor:
    """The entries of an output that were there before it grew.

    Raises:
        InputsError: it has other dims, or shrank.
    """
    if old.dim() != new.dim() or any(a > b for a, b in zip(old.shape, new.shape, strict=True)):
        raise InputsError(
            f"an output of shape {tuple(new.shape)} after, {tuple(old.shape)} before",
            "the same shape, or a larger one where the output grew",
            "compare models of one kind on the same inputs",
        )
    return new[tuple(slice(size) for size in old.shape)]


def is_constant(outputs: Outputs) -> bool:
    """Whether each tensor is one number throughout: zero, or any number that occurs more than once."""
    return all(bool((t == t.flatten()[0]).all()) and (t.numel() > 1 or not t.any()) for t in outputs if t.numel())


def relative(old: Tensor, new: Tensor) -> tuple[float, float]:
    """Largest difference, and the same over the largest value; infinite where only one of the two is finite.

    Entries that are the same infinity in both (masked scores), or no number in both, do not differ. Entries that are
    apart from all others by orders of magnitude (large numbers that stand for minus infinity) count by themselves:
    a difference is taken over the largest value of its own kind.
    """
    old, new = old.detach().double(), new.detach().double()
    alike = (old == new) | (old.isnan() & new.isnan())
    old, new = (torch.where(alike & ~t.isfinite(), 0.0, t) for t in (old, new))
    difference, size = (old - new).abs(), old.abs()
    if not difference.isfinite().all():
        return float("inf"), float("inf")
    worst = 0.0, 0.0
    for least, most in _kinds(size):
        inside = (size >= least) & (size < most)
        largest, scale = float(difference[inside].max()), float(size[inside].max())
        share = 0.0 if largest == 0 else largest / scale if scale else float("inf")
        worst = max(worst, (largest, share), key=lambda pair: pair[1])
    return worst


def _kinds(size: Tensor) -> list[tuple[float, float]]:
    """Half-open ranges of magnitude: one as a rule, more where large entries lie beyond a gap."""
    if not size.numel():
        return []
    bounds = [0.0, float("inf")]
    if size.max() >= 10**_GAP:
        decades = size[(size > 0) & size.isfinite()].log10().floor().unique().tolist()
        gaps = [b for a, b in zip([-float("inf"), *decades], decades, strict=False) if b - a > _GAP and b >= _GAP]
        bounds[1:1] = [10.0**b * (1 - 1e-9) for b in gaps if bool((size < 10.0**b * (1 - 1e-9)).any())]
    return list(pairwise(bounds))


def rounding(exact: Tensor, own: Tensor) -> float:
    """Relative deviation of a tensor from what float64 gives, where both are numbers; infinite if they never are.

    The largest number of a dtype is another one in float64; it stands for infinity.
    """
    largest = torch.finfo(own.dtype).max / 2
    finite = exact.isfinite() & (own.double().abs() < largest)
    return relative(exact[finite], own[finite])[1] if finite.any() else relative(exact, own)[1]
