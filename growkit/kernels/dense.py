"""The oracle: axis maps as matrices, contracted with every dimension. Slow and obviously right."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from einops import einsum
from torch import Tensor


def dense(tensor: Tensor, maps: Sequence[tuple[Sequence[int], Sequence[float]] | None]) -> Tensor:
    """The same result as `growkit.kernels.gather.gather`, by one matrix a dimension.

    Shapes: tensor 'old_0 old_1 ...', result 'new_0 new_1 ...'; for each dimension, one source and one factor per new
    position, or None where it is unchanged. Source -1 gives zeros.
    """
    for dim, (old_size, mapped) in enumerate(zip(tensor.shape, maps, strict=True)):
        source, factors = mapped or (range(old_size), [1.0] * old_size)
        matrix = torch.zeros(len(source), old_size, dtype=tensor.dtype, device=tensor.device)
        for new, (old, scale) in enumerate(zip(source, factors, strict=True)):
            if old >= 0:
                matrix[new, old] = scale
        tensor = einsum(matrix, tensor.movedim(dim, 0), "new old, old ... -> new ...").movedim(0, dim)
    return tensor
