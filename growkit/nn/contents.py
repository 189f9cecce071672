"""What a module holds, by name: its tensors, and the types of its modules."""

from __future__ import annotations

from torch import Tensor, nn


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters, then buffers, each once, by the first of its names."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def aliases_of(model: nn.Module) -> dict[str, str]:
    """Further name -> first name, of parameters and buffers that have several."""
    first = {id(tensor): name for name, tensor in tensors_of(model).items()}
    names = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: first[id(tensor)] for name, tensor in names if first[id(tensor)] != name}


def module_types(model: nn.Module) -> dict[str, str]:
    """Qualified type name of each module, by path."""
    return {path: qualified_name(type(module)) for path, module in model.named_modules()}


def qualified_name(kind: type) -> str:
    """`torch.optim.adam.Adam` for the class Adam."""
    return f"{kind.__module__}.{kind.__qualname__}"
