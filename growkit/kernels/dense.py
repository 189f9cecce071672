"""The oracle: axis maps as matrices, contracted with every dimension. Slow and obviously right."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from einops import einsum
from torch import Tensor


def dense(tensor: Tensor, sources: Sequence[Sequence[int] | None], factors: Sequence[Sequence[float] | None]) -> Tensor:
    """The same result as `growkit.kernels.gather.gather`, by one matrix a dimension.

    Shapes: tensor 'old_0 old_1 ...', result 'new_0 new_1 ...'; one source and one factor per new position,
    None where the dimension is unchanged. Source -1 gives zeros.
    """
    matrices = []
    for old_size, source, factor in zip(tensor.shape, sources, factors, strict=True):
        positions = range(old_size) if source is None else source
        scales = [1.0] * len(positions) if factor is None else factor
        matrix = torch.zeros(len(positions), old_size, dtype=tensor.dtype, device=tensor.device)
        for new, (old, scale) in enumerate(zip(positions, scales, strict=True)):
            if old >= 0:
                matrix[new, old] = scale
        matrices.append(matrix)
    if not matrices:
        return tensor.clone()
    old, new = [f"o{d}" for d in range(tensor.dim())], [f"n{d}" for d in range(tensor.dim())]
    pairs = ", ".join(f"{n} {o}" for n, o in zip(new, old, strict=True))
    return einsum(tensor, *matrices, f"{' '.join(old)}, {pairs} -> {' '.join(new)}")
