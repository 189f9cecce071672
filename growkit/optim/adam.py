"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Mapping

from growkit.optim.rules import Graded, OptimizerSpec, Rule, Scalar


def _adam_couples_decay(group: Mapping[str, object]) -> bool:
    # torch >= 2.7 keeps the flag in the group, where a loaded state dict can set it.
    return group["weight_decay"] != 0 and not group.get("decoupled_weight_decay", False)


_STATE: dict[str, Rule] = {
    "step": Scalar(),
    "exp_avg": Graded(degree=1),
    "exp_avg_sq": Graded(degree=2),
    "max_exp_avg_sq": Graded(degree=2),
}

ADAM = OptimizerSpec(state=_STATE, couples_decay=_adam_couples_decay, update_degree=0)
"""Moments m (degree 1) and v (degree 2), the running maximum of v for AMSGrad, and one step count a parameter.

Source: Kingma & Ba 2015, Adam, Algorithm 1; Reddi et al. 2018, On the convergence of Adam, Algorithm 2.
"""

ADAMW = OptimizerSpec(state=_STATE, couples_decay=lambda group: False, update_degree=0)
"""As Adam; the decay acts on the values alone, so the moments stay exact.

Source: Loshchilov & Hutter 2019, Decoupled weight decay regularization, Algorithm 2.
"""
