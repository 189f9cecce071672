"""A plan and a model: every check, and the edits. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from growkit.axes.layouts import Layout
from growkit.errors import DepthError, PlanError
from growkit.growth.edits import Edit, edit
from growkit.growth.fingerprint import check_fingerprint
from growkit.growth.plan import DepthStep, Plan, block_path
from growkit.maps.lifting import Change, GrownAxis, lift
from growkit.maps.methods.table import method
from growkit.nn.contents import aliases_of, tensors_of


@dataclass(frozen=True)
class Resolved:
    """A plan that fits a model: the edits by tensor name, in the order of the model's tensors.

    `aliases`: further name of a tied tensor -> its first name.
    """

    plan: Plan
    edits: Mapping[str, Edit]
    aliases: Mapping[str, str]


def resolve(plan: Plan, model: nn.Module) -> Resolved:
    """The edits of a plan on a model.

    Raises:
        PlanError: the plan is for another model, or a tensor cannot be replaced.
        DepthError: a block shares parameters with the rest of the model, or cannot be copied.
    """
    check_fingerprint(model, plan.fingerprint)
    tensors = tensors_of(model)
    grown = {}
    for step in plan.width:
        how = method(step.method)
        grown[step.axis] = GrownAxis(how.make(step.old, step.new, f"{plan.seed}/{plan.growth}/{step.axis}"), how)
    edits = {}
    for name, tensor in tensors.items():
        if name not in plan.layouts:
            continue
        _check_replaceable(name, tensor)
        layout = Layout.parse(plan.layouts[name])
        if layout.shape(plan.sizes) != tuple(tensor.shape):
            raise PlanError(
                f"layout '{layout}' of {name!r} gives {layout.shape(plan.sizes)}",
                f"the shape of the tensor, {tuple(tensor.shape)}",
                "make the plan anew from this model",
            )
        changes = {(s.dim, s.position): Change(s.factor, s.silent) for s in plan.leaves if s.tensor == name}
        dims = [
            lift(dim, plan.sizes, grown, {at: change for (number, at), change in changes.items() if number == d})
            for d, dim in enumerate(layout.dims)
        ]
        if any(dim is not None for dim in dims):
            shift = plan.shifts.get(name, 0.0)
            edits[name] = edit(name, tensor, layout, dims, f"{plan.seed}/{plan.growth}", shift)
    for depth in plan.depth:
        _check_blocks(model, depth)
    return Resolved(plan, edits, aliases_of(model))


def container_of(model: nn.Module, path: str) -> nn.ModuleList | nn.Sequential:
    """The container at a path.

    Raises:
        DepthError: there is no `ModuleList` or `Sequential` there.
    """
    try:
        container = model.get_submodule(path)
    except AttributeError:
        container = None
    if not isinstance(container, nn.ModuleList | nn.Sequential):
        raise DepthError(
            f"container {path!r}: {type(container).__name__}", "a ModuleList or Sequential", "name the container"
        )
    return container


def _check_replaceable(name: str, tensor: Tensor) -> None:
    if type(tensor) not in (nn.Parameter, Tensor):
        raise PlanError(
            f"tensor {name!r} of type {type(tensor).__name__}",
            "plain parameters and buffers (no quantised, sharded or lazy ones)",
            "grow before quantising or sharding, or leave its axes out of the plan",
        )
    hooks = bool(tensor._backward_hooks) or bool(getattr(tensor, "_post_accumulate_grad_hooks", None))
    if hooks:
        raise PlanError(
            f"parameter {name!r} has tensor hooks, which would be lost with the old tensor",
            "parameters without tensor hooks (module hooks are kept)",
            "remove the hooks, grow, and register them again",
        )


def _check_blocks(model: nn.Module, step: DepthStep) -> None:
    container = container_of(model, step.container)
    if len(container) != step.old:
        raise PlanError(
            f"container {step.container!r} of {len(container)} blocks", f"{step.old} blocks", "make the plan anew"
        )
    for insertion in step.insertions:
        path = block_path(step.container, insertion.source)
        inside = _held(m for name, m in _modules(model) if _within(name, path))
        outside = _held(m for name, m in _modules(model) if not _within(name, path))
        if inside & outside:
            raise DepthError(
                f"block {path!r} shares parameters with the rest of the model",
                "blocks that own their parameters",
                "insert after another block: Insert(at=[...])",
            )
        for name, module in model.get_submodule(path).named_modules(prefix=path):
            if "forward" in vars(module):
                raise DepthError(
                    f"block {path!r}, in which {name!r} has a forward of its own, not that of its class",
                    "blocks of which a copy runs by itself: such a forward may go on calling the original",
                    "put the change into the class, or set it after the growth, on each block",
                )


def _modules(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    return model.named_modules(remove_duplicate=False)


def _within(name: str, path: str) -> bool:
    return name == path or name.startswith(path + ".")


def _held(modules: Iterable[nn.Module]) -> set[int]:
    return {id(t) for m in modules for t in (*m._parameters.values(), *m._buffers.values()) if t is not None}
