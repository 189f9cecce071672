"""Axis maps applied to a tensor: all dimensions in one go, each entry written once.

Most maps are a few runs of consecutive old positions (the identity prefix, then whole copies), so the
result is a few blocks, each a slice of the old tensor times one number. Dimensions with many runs are
gathered by index first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import torch
from torch import Tensor

MOST_BLOCKS = 64
"""With more blocks than this, gathering by index is faster than slicing."""


@dataclass(frozen=True)
class _Run:
    """`length` new positions from `start` on, taken from old positions `old` on (-1: zeros)."""

    start: int
    old: int
    length: int
    factor: float


@torch.no_grad()
def gather(tensor: Tensor, maps: Sequence[tuple[Sequence[int], Sequence[float]] | None]) -> Tensor:
    """The grown tensor: old entries at the sources, times the product of the factors of their positions.

    Shapes: tensor 'old_0 old_1 ...', result 'new_0 new_1 ...'; for each dimension, one source and one factor per new
    position, or None where it is unchanged. Source -1 gives zeros. Keeps dtype, device and memory format.

    Law: equal to `growkit.kernels.dense.dense`.
    """
    runs = [
        [_Run(0, 0, old_size, 1.0)] if mapped is None else _runs(*mapped)
        for old_size, mapped in zip(tensor.shape, maps, strict=True)
    ]
    format_ = _memory_format(tensor)
    by_index: list[tuple[int, Sequence[int], Sequence[float]]] = []
    while prod(map(len, runs)) > MOST_BLOCKS:
        dim = max(range(len(runs)), key=lambda d: len(runs[d]))
        mapped = maps[dim]
        assert mapped is not None
        source, factors = mapped
        index = torch.tensor([max(i, 0) for i in source], device=tensor.device)
        tensor = tensor.index_select(dim, index)
        by_index.append((dim, source, factors))
        runs[dim] = [_Run(0, 0, len(source), 1.0)]
    if by_index and all(len(dim_runs) == 1 for dim_runs in runs):
        result = tensor.contiguous(memory_format=format_)
    else:
        result = _blocks(tensor, runs, format_)
    for dim, source, factors in by_index:
        if any(factor != 1.0 for factor in factors):
            # in half precision the product is rounded once, not the factor too
            dtype = torch.promote_types(tensor.dtype, torch.float32)
            vector = torch.tensor(factors, dtype=dtype, device=tensor.device)
            result.mul_(vector.view([-1 if d == dim else 1 for d in range(result.dim())]))
        # written, not multiplied: what stands there came from position 0, and 0 * inf is no zero
        new = [j for j, i in enumerate(source) if i < 0]
        if new:
            result.index_fill_(dim, torch.tensor(new, device=result.device), 0)
    return result


def _blocks(tensor: Tensor, runs: Sequence[Sequence[_Run]], memory_format: torch.memory_format) -> Tensor:
    """The product of the runs of all dims, block by block, in memory of its own."""
    shape = [sum(run.length for run in dim_runs) for dim_runs in runs]
    result = torch.empty(shape, dtype=tensor.dtype, device=tensor.device, memory_format=memory_format)
    for block in product(*runs):
        target = result[tuple(slice(run.start, run.start + run.length) for run in block)]
        if any(run.old < 0 for run in block):
            target.zero_()
            continue
        old = tensor[tuple(slice(run.old, run.old + run.length) for run in block)]
        scale = prod(run.factor for run in block)
        if scale == 1.0:
            target.copy_(old)
        else:
            torch.mul(old, scale, out=target)
    return result


def _runs(source: Sequence[int], factors: Sequence[float]) -> list[_Run]:
    found: list[_Run] = []
    start = 0
    for j in range(1, len(source) + 1):
        if j < len(source) and factors[j] == factors[start]:
            step = source[j] - source[j - 1]
            if (source[start] < 0 and source[j] < 0) or (source[start] >= 0 and step == 1):
                continue
        found.append(_Run(start, source[start], j - start, factors[start]))
        start = j
    return found


def _memory_format(tensor: Tensor) -> torch.memory_format:
    for format_, dims in ((torch.channels_last, 4), (torch.channels_last_3d, 5)):
        if tensor.dim() == dims and tensor.is_contiguous(memory_format=format_) and not tensor.is_contiguous():
            return format_
    return torch.contiguous_format
