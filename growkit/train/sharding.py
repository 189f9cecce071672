"""Models that are sharded over ranks (FSDP2), and whole again while they change."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from growkit.errors import EngineError

Shard = Callable[[nn.Module], object]


class Sharding:
    """Shards a model in place, and gives a plain one with the same values, structure and ties back.

    shard: applies `torch.distributed.fsdp.fully_shard` to a model, blocks first.

    A sharded module cannot be made plain again, so the plain one is another instance: of the structure as it was
    before it was sharded, without values, to which the values are gathered. Optimizers keep their identity, groups
    and state; their parameters and slots are sharded and gathered along.
    """

    def __init__(self, shard: Shard):
        self._shard = shard
        self._structure: nn.Module | None = None

    def shard(self, model: nn.Module, optimizers: Iterable[Optimizer]) -> None:
        """Shards the model in place, and lets the optimizers hold the shards. All ranks have to take part.

        Raises: EngineError where `shard` left the model as it was, or changed the names of its parameters.
        """
        before = dict(model.named_parameters())
        self._structure = _without_values(model)
        self._shard(model)
        after = dict(model.named_parameters())
        if list(before) != list(after) or not any(_is_sharded(parameter) for parameter in after.values()):
            raise EngineError(
                "a function `shard` that left no sharded parameters under the model's names",
                "a function that applies torch.distributed.fsdp.fully_shard to the model in place",
                "write Runtime(shard=lambda model: fully_shard(model)), or use wrap= for other wrappers",
            )
        _replace(optimizers, {before[name]: after[name] for name in before}, _sharded_like)

    def gather(self, model: nn.Module, optimizers: Iterable[Optimizer]) -> nn.Module:
        """A plain model with the values of the sharded one; the optimizers hold its parameters. All ranks take part.

        Raises: EngineError where parameters or buffers of the sharded model are others than those that were sharded.
        """
        assert self._structure is not None, "gather comes after shard"
        if _sizes(model) != _sizes(self._structure):
            changed = sorted({name for name, _ in set(_sizes(model).items()) ^ set(_sizes(self._structure).items())})
            raise EngineError(
                f"a sharded model that was changed in place: {', '.join(changed)}",
                "changes of a model that is whole",
                "call runtime.drop_wrapper() on every rank and change runtime.model, or grow it with growkit.Growth",
            )
        whole = {parameter: _whole_parameter(parameter) for parameter in model.parameters()}
        memo: dict[int, Any] = {}
        plain_parameters, sharded = dict(self._structure.named_parameters()), dict(model.named_parameters())
        for name, parameter in plain_parameters.items():
            memo[id(parameter)] = whole[sharded[name]]
        buffers = dict(model.named_buffers())
        for name, buffer in self._structure.named_buffers():
            memo[id(buffer)] = buffers[name].clone()
        plain = copy.deepcopy(self._structure, memo)
        for module, now in zip(plain.modules(), model.modules(), strict=True):
            module.training = now.training
        _replace(optimizers, whole, lambda value, _: whole_tensor(value))
        self._structure = None
        return plain


def whole_tensor(tensor: Any) -> torch.Tensor:
    """The full tensor of a shard, on every rank; a plain tensor itself. All ranks have to take part."""
    return tensor.full_tensor() if _is_sharded(tensor) else tensor


def _sizes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in [*model.named_parameters(), *model.named_buffers()]}


def _is_sharded(tensor: Any) -> bool:
    return hasattr(tensor, "full_tensor")


def _whole_parameter(parameter: nn.Parameter) -> nn.Parameter:
    value = whole_tensor(parameter.detach())
    return nn.Parameter(value if value is not parameter else value.clone(), requires_grad=parameter.requires_grad)


def _without_values(model: nn.Module) -> nn.Module:
    """The structure of a model, with parameters and buffers that take no memory; ties stay ties."""
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(torch.empty_like(parameter, device="meta"), parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = torch.empty_like(buffer, device="meta")
    return copy.deepcopy(model, memo)


def _sharded_like(value: torch.Tensor, parameter: Any) -> torch.Tensor:
    if value.shape == parameter.shape:
        from torch.distributed.tensor import distribute_tensor  # It takes long to import, and numpy along.

        return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)
    return value


def _replace(
    optimizers: Iterable[Optimizer],
    successors: Mapping[Any, nn.Parameter],
    convert: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    """Lets optimizers hold other parameters in the place of theirs, with gradients and the tensors of their state."""
    for parameter, successor in successors.items():
        if parameter.grad is not None:
            successor.grad = convert(parameter.grad, successor)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["params"] = [successors.get(parameter, parameter) for parameter in group["params"]]
        state = {
            successors.get(parameter, parameter): {
                key: convert(value, successors[parameter])
                if isinstance(value, torch.Tensor) and parameter in successors
                else value
                for key, value in slots.items()
            }
            for parameter, slots in optimizer.state.items()
        }
        optimizer.state.clear()
        optimizer.state.update(state)
