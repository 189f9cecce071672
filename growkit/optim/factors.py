"""Learning-rate factors that keep the training of the old function as it was."""

from __future__ import annotations

from collections.abc import Sequence

from growkit.maps.axis_map import NEW
from growkit.maps.lifting import DimMap


def learning_rate_factor(dims: Sequence[DimMap | None], update_degree: int) -> float | None:
    """Factor on the learning rate of a grown parameter; None if entries would need different ones.

    With entries V times those of the small net and gradients A times, an update of degree r in the gradients is
    A^r times the small one, so V / A^r of it moves the function alike: 1 / count on consumers for Adam (r = 0).

    Args:
        dims: one map for each dim, None where it does not grow.
        update_degree: degree of the optimizer's update in the gradients: 1 for SGD, 0 for Adam.

    Source: Yang et al. 2022, Tensor Programs V (arXiv 2203.03466), table 8, for uniform copies.
    """
    factor = 1.0
    for dim in dims:
        if dim is None:
            continue
        if dim.gradient is None:
            return None
        entries = zip(dim.source, dim.value, dim.gradient, strict=True)
        past = {(value, gradient**update_degree) for source, value, gradient in entries if source != NEW}
        if any(gradient == 0 for _, gradient in past):  # no update at all, which no factor mends
            return None
        ratios = {value / gradient for value, gradient in past}
        if len(ratios) != 1:
            return None
        factor *= ratios.pop()
    return factor
