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
    for dim, (source, factor) in enumerate(zip(sources, factors, strict=True)):
        positions = range(tensor.shape[dim]) if source is None else source
        scales = [1.0] * len(positions) if factor is None else factor
        matrix = torch.zeros(len(positions), tensor.shape[dim], dtype=tensor.dtype, device=tensor.device)
        for new, (old, scale) in enumerate(zip(positions, scales, strict=True)):
            if old >= 0:
                matrix[new, old] = scale
        tensor = einsum(matrix, tensor.movedim(dim, 0), "new old, old ... -> new ...").movedim(0, dim)
    return tensor
