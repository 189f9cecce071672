"""Growth by rebuilding: a factory makes a module of the new sizes, which takes over the mapped tensors.

For modules that keep references of their own to their parameters, where new tensors put in place would not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from growkit.discovery.untouched import untouched, unwrap
from growkit.errors import DepthError, GrowkitError, PlanError
from growkit.growth.edits import Edit
from growkit.growth.fingerprint import differences, read_number
from growkit.growth.plan import Plan, block_path
from growkit.growth.replace import moved
from growkit.growth.resolve import Resolved
from growkit.growth.sizes import Sizes, sizes_after
from growkit.nn.contents import aliases_of, module_types, tensors_of

Factory = Callable[[Sizes], nn.Module]
"""What builds a new module of given sizes: see `growkit.growth.sizes`."""

_SHOWN = 6


@dataclass(frozen=True)
class Origin:
    """The old tensor that one of the grown model comes from; `copy`: number of the new block that has it, or 0.

    `silenced`: the number that all of it starts at, if it does not start as a copy.
    """

    name: str
    copy: int = 0
    silenced: float | None = None


def check_can_rebuild(plan: Plan) -> None:
    """Passes if what a factory builds can be the model that a plan describes.

    Raises:
        DepthError: a new block would be without some of its modules, of which a factory knows nothing.
    """
    for step in plan.depth:
        for insertion in step.insertions:
            if insertion.bypassed:
                raise DepthError(
                    f"a new block of {step.container!r} without its {', '.join(insertion.bypassed)}, by a factory",
                    "with factory=, blocks of which a whole copy can start as the identity: x + f(norm(x))",
                    "grow width only, or grow in place, without factory=",
                )


def rebuilt(model: nn.Module, resolved: Resolved, factory: Factory) -> nn.Module:
    """A new module that computes what the grown model would; the old one is as before.

    Values, dtype, device, pending gradients, `requires_grad` and train/eval flags come from the old model; hooks, and
    all that is no parameter, buffer or flag, from the factory.

    Raises:
        PlanError: the factory raises, gives something else than a module with the tensors and modules that the plan
            describes, or one that shares tensors with the old model; or it changes the old model.
    """
    plan = resolved.plan
    sizes, known = sizes_after(plan), differences(model, plan.fingerprint)
    try:
        with untouched(model):  # a factory draws random numbers, and may touch what it copies
            new = factory(sizes)
            changed = [found for found in differences(model, plan.fingerprint) if found not in known]
    except GrowkitError:
        raise
    except Exception as error:
        raise PlanError(
            f"the factory raises {type(error).__name__}: {error}",
            "a function of the new sizes that returns a module",
            "build the model from sizes['name'], with names as in widen=; print(dict(sizes)) shows them",
        ) from error
    if not isinstance(new, nn.Module):
        raise PlanError(f"a factory that returns {type(new).__name__}", "a torch.nn.Module", "return the new model")
    new = unwrap(new)
    if changed:
        raise PlanError(
            f"a factory that changes the model it is to replace: {'; '.join(changed[:3])}",
            "a new module; the old one, and the config it keeps, stay as they are",
            "copy the config first: config = copy.deepcopy(config)",
        )
    origins = origins_of(resolved, model)
    _check_apart(model, new)
    _check_shape(model, new, resolved, origins)
    _fill(model, new, resolved.edits, origins)
    flags = {path: module.training for path, module in model.named_modules(remove_duplicate=False)}
    paths = _paths(plan, flags)
    for path, module in new.named_modules(remove_duplicate=False):
        module.training = flags[paths[path]]
    return new


def origins_of(resolved: Resolved, model: nn.Module) -> dict[str, Origin]:
    """The old tensor that each tensor of the grown model comes from, by all of its names."""
    depth, first = resolved.plan.depth, {name: name for name in tensors_of(model)} | aliases_of(model)
    found = {moved(name, depth): Origin(origin) for name, origin in first.items()}
    copy = 0
    for step in depth:
        for number, insertion in enumerate(step.insertions):
            copy += 1
            source = block_path(step.container, insertion.source)
            new = block_path(step.container, insertion.position + number)
            silenced = {first[f"{source}.{name}"]: value for name, value in insertion.silenced.items()}
            for name in insertion.parameters(step.container, first):
                found[new + name.removeprefix(source)] = Origin(first[name], copy, silenced.get(first[name]))
    return found


def _paths(plan: Plan, paths: Iterable[str]) -> dict[str, str]:
    """Path of each module of the grown model: that of the old one it is like."""
    known = list(paths)
    found = {moved(path, plan.depth): path for path in known}
    for step in plan.depth:
        for number, insertion in enumerate(step.insertions):
            source = block_path(step.container, insertion.source)
            new = block_path(step.container, insertion.position + number)
            found |= {new + p.removeprefix(source): p for p in known if p == source or p.startswith(source + ".")}
    return found


def _named(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by all of their names."""
    return {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}


def _check_apart(model: nn.Module, new: nn.Module) -> None:
    own = {tensor.untyped_storage().data_ptr(): name for name, tensor in _named(model).items() if tensor.numel()}
    shared = [
        f"{name} ({own[address]})"
        for name, tensor in _named(new).items()
        if (address := tensor.untyped_storage().data_ptr()) in own and tensor.numel() and not tensor.is_meta
    ]
    if new is model or shared:
        raise PlanError(
            "a factory that returns the old model" if new is model else f"a new module that shares {_some(shared)}",
            "a new module with tensors of its own: the old one must stay whole until the new one is verified",
            "build the module anew from the sizes, without parts of the old one",
        )


def _check_shape(model: nn.Module, new: nn.Module, resolved: Resolved, origins: Mapping[str, Origin]) -> None:
    old, found = _named(model), _named(new)
    expected = {
        name: edit.shape if (edit := resolved.edits.get(origin.name)) else tuple(old[origin.name].shape)
        for name, origin in origins.items()
    }
    faults = [f"{name} is missing" for name in expected if name not in found]
    for name, tensor in found.items():
        if name not in expected:
            faults.append(f"{name} is not in the old model")
        elif tuple(tensor.shape) != expected[name]:
            faults.append(f"{name} is {tuple(tensor.shape)}, should be {expected[name]}")
        elif isinstance(tensor, nn.Parameter) != isinstance(old[origins[name].name], nn.Parameter):
            faults.append(f"{name} is a {type(tensor).__name__}, was a {type(old[origins[name].name]).__name__}")
        elif tensor.is_meta and not old[origins[name].name].is_meta:
            faults.append(f"{name} is on the meta device")
    faults += _other_ties(found, origins) or [*_other_modules(model, new, resolved.plan)]
    if faults:
        raise PlanError(
            f"a factory whose module differs from the grown model: {_some(faults)}",
            "the tensors of the old model, by the same names, at the sizes of the plan",
            "build every part from the sizes that the factory gets: sizes['name'], with names as in widen=",
        )


def _other_ties(found: Mapping[str, Tensor], origins: Mapping[str, Origin]) -> list[str]:
    """Names that are one tensor in the new module or in the old model, and not in the other."""
    names: dict[tuple[str, int], str] = {}
    by_tensor: dict[int, str] = {}
    faults = []
    for name, origin in origins.items():
        if name not in found:
            continue
        expected = names.setdefault((origin.name, origin.copy), name)
        tied = by_tensor.setdefault(id(found[name]), name)
        if tied != expected:
            what = f"{name} is not tied to {expected}" if expected != name else f"{name} is tied to {tied}"
            faults.append(f"{what}, unlike in the old model")
    return faults


def _other_modules(model: nn.Module, new: nn.Module, plan: Plan) -> Iterator[str]:
    types, found = module_types(model), module_types(new)
    expected = {now: types[path] for now, path in _paths(plan, types).items()}
    for path in {**expected, **found}:
        if path not in found:
            yield f"module {path} is missing"
        elif path not in expected:
            yield f"module {path} is not in the old model"
        elif expected[path] != found[path]:
            yield f"module {path or 'at the top'} is a {found[path]}, was a {expected[path]}"
    for number in (*plan.numbers, *(number for step in plan.depth for number in step.numbers)):
        path = moved(number.path, plan.depth)
        value = read_number(new, path, number.index)
        if value != number.new:
            yield f"{path} is {value}, should be {number.new}"


@torch.no_grad()
def _fill(model: nn.Module, new: nn.Module, edits: Mapping[str, Edit], origins: Mapping[str, Origin]) -> None:
    _move_like(new, model)
    old = tensors_of(model)
    for name, tensor in tensors_of(new).items():
        origin = origins[name]
        source, edit = old[origin.name], edits.get(origin.name)
        value = source.detach() if edit is None else edit.value(source)
        value = value if origin.silenced is None else torch.full_like(value, origin.silenced)
        alike = (tensor.dtype, tensor.device, tensor.stride()) == (value.dtype, value.device, value.stride())
        if alike:
            tensor.copy_(value)  # in place: the module may hold other views of it
        else:
            tensor.data = value.clone()
        if isinstance(tensor, nn.Parameter):
            tensor.requires_grad_(source.requires_grad)
            tensor.grad = None
            if source.grad is not None and not origin.copy:
                tensor.grad = source.grad.clone() if edit is None else edit.gradient(source.grad)


def _move_like(new: nn.Module, model: nn.Module) -> None:
    """To the device and dtype of the old model, by the module's own means: it may keep references of its own."""
    mine, theirs = ({(p.device, p.dtype) for p in m.parameters() if p.is_floating_point()} for m in (new, model))
    if mine != theirs and len(theirs) == 1:
        ((device, dtype),) = theirs
        new.to(device=device, dtype=dtype)


def _some(faults: Sequence[str]) -> str:
    more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    return "; ".join(faults[:_SHOWN]) + more
