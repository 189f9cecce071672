"""Whether the state of an optimizer can grow exactly. Looks at everything and touches nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from growkit.errors import OptimizerError
from growkit.nn.contents import qualified_name
from growkit.optim.rules import OptimizerSpec
from growkit.optim.table import find_spec, registered


@dataclass(frozen=True)
class Place:
    """Where an optimizer holds a parameter: `optimizer.param_groups[group]["params"][position]`."""

    group: int
    position: int

    def __str__(self) -> str:
        return f"param_groups[{self.group}]['params'][{self.position}]"


@dataclass(frozen=True)
class CheckedOptimizer:
    """An optimizer whose state can grow.

    `owned`: place of each of the model's parameters that it holds, by name; `foreign`: places of the others, which a
    growth leaves untouched.
    """

    spec: OptimizerSpec
    owned: Mapping[str, Place]
    foreign: tuple[Place, ...]


def check_optimizer(
    optimizer: torch.optim.Optimizer, model_parameters: Mapping[str, torch.nn.Parameter]
) -> CheckedOptimizer:
    """Says which of the model's parameters an optimizer holds, and by which rules their state grows.

    Args:
        optimizer: any optimizer.
        model_parameters: `dict(model.named_parameters())`.

    Raises:
        OptimizerError: there are no rules for the class, it holds none of the parameters, or one of them twice, or
            their state has a key without rule, a shape that does not belong to the parameter, or a type that cannot be
            mapped.
    """
    kind = type(optimizer)
    spec = find_spec(kind)
    if spec is None:
        raise OptimizerError(
            f"an optimizer of class {qualified_name(kind)}, which has no rules for its state",
            f"{', '.join(registered())}, and subclasses of these that keep their `step`",
            f"use one of these, or give its rules: growkit.optim.table.register({kind.__name__}, "
            "OptimizerSpec(state={key: rule}, couples_decay=..., update_degree=...))",
        )
    names: dict[int, str] = {}
    for name, parameter in model_parameters.items():
        names.setdefault(id(parameter), name)
    owned: dict[str, Place] = {}
    foreign: list[Place] = []
    for group_number, group in enumerate(optimizer.param_groups):
        for position, parameter in enumerate(group["params"]):
            place = Place(group_number, position)
            owner = names.get(id(parameter))
            if owner is None:
                foreign.append(place)
                continue
            if owner in owned:
                raise OptimizerError(
                    f"{kind.__name__} holds {owner} twice: at {owned[owner]} and at {place}",
                    "each parameter once: listed twice, it is updated twice a step from one state",
                    "leave the second entry out of the parameters that the optimizer is made from",
                )
            owned[owner] = place
            # `state` is a defaultdict: indexing it would add an entry.
            if parameter in optimizer.state:
                _check_state(kind.__name__, spec, owner, parameter, optimizer.state[parameter])
    if not owned:
        raise OptimizerError(
            f"{kind.__name__} holds none of the model's parameters (it holds {len(foreign)} others)",
            f"an optimizer of at least one of the model's {len(model_parameters)} parameters",
            "make it from this model's `parameters()`, after any change that replaces them; or leave it out",
        )
    return CheckedOptimizer(spec, owned, tuple(foreign))


def _check_state(kind: str, spec: OptimizerSpec, name: str, parameter: Tensor, state: Mapping[str, object]) -> None:
    for key, value in state.items():
        shape = tuple(value.shape) if isinstance(value, Tensor) else ()
        rule = spec.state.get(key)
        if rule is None:
            raise OptimizerError(
                f"{kind} keeps a state {key!r} of shape {shape} for {name}, which has no rule",
                ", ".join(spec.state),
                f"remove the key if it is not {kind}'s own, or register a subclass with a spec that has a rule for it",
            )
        expected = rule.expected_shape(parameter.shape)
        if value is not None and shape != expected:
            raise OptimizerError(
                f"{kind}'s state {key!r} for {name} has shape {shape}",
                f"{expected}, for a parameter of shape {tuple(parameter.shape)}",
                "load the state that belongs to this model, or make the optimizer anew after changing the parameter",
            )
        if isinstance(value, Tensor) and shape and not (type(value) is Tensor and value.is_floating_point()):
            raise OptimizerError(
                f"{kind}'s state {key!r} for {name} is a {type(value).__name__} of {value.dtype}",
                "plain tensors of floating-point numbers: what others stand for is not known",
                "grow before the state is quantised or sharded, or keep it in full precision",
            )
