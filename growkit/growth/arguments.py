"""Arguments of the wrong type, named before anything is done with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from growkit.errors import OptimizerError, PlanError
from growkit.growth.plan import Plan


def check_arguments(model: object, plan: object, optimizers: object) -> None:
    """Passes for a module, a plan or None, and one or several optimizers or None.

    Raises:
        PlanError, OptimizerError: naming what was given.
    """
    if not isinstance(model, nn.Module):
        raise PlanError(f"a model of type {type(model).__name__}", "a torch.nn.Module", "pass the model itself")
    if plan is not None and not isinstance(plan, Plan):
        raise PlanError(
            f"a plan of type {type(plan).__name__}",
            "a Plan, from make_plan or Plan.from_json",
            "read JSON text with Plan.from_json; sizes go into widen=",
        )
    many = optimizers if isinstance(optimizers, Iterable) else () if optimizers is None else (optimizers,)
    for optimizer in many:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise OptimizerError(
                f"an optimizer of type {type(optimizer).__name__}",
                "one torch.optim.Optimizer, or several",
                "pass the optimizer itself; schedulers need not be passed, they go on with their optimizer",
            )


def check_mapping(argument: str, value: object, entries: str) -> None:
    """Passes for None and for mappings with texts as keys.

    Raises:
        PlanError: naming the argument.
    """
    if value is None:
        return
    allowed = f"a mapping {{{entries}}} with texts as names"
    if not isinstance(value, Mapping):
        raise PlanError(f"{argument}={value!r} of type {type(value).__name__}", allowed, f"write {argument}={{...}}")
    odd = [name for name in value if not isinstance(name, str)]
    if odd:
        raise PlanError(
            f"{argument} with the name {odd[0]!r} of type {type(odd[0]).__name__}", allowed, "mend the name"
        )
