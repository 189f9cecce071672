"""SGD with momentum."""

from __future__ import annotations

from collections.abc import Mapping

from growkit.optim.rules import Graded, OptimizerSpec


def _couples_decay(group: Mapping[str, object]) -> bool:
    return group["weight_decay"] != 0


SGD = OptimizerSpec(state={"momentum_buffer": Graded(degree=1)}, couples_decay=_couples_decay, update_degree=1)
"""The buffer b = momentum * b + (1 - dampening) * g is linear in the gradients.

Source: Sutskever et al. 2013, On the importance of initialization and momentum, eqs. 1-2, as torch.optim.SGD has it.
"""
