"""What a module holds, by name: its tensors, its modules and their types."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from growkit.nn.places import holders_of


class Contents:
    """What a model holds, looked up once; it stays true while nothing changes the model."""

    def __init__(self, model: nn.Module):
        self.model = model
        self.modules: dict[str, nn.Module] = dict(model.named_modules())
        self.parameters = dict(model.named_parameters())
        self.buffers = dict(model.named_buffers())
        self.holders: tuple[tuple[str, Any], ...] = tuple(holders_of(model))
        """See `holders_of`."""

    def aliases(self) -> dict[str, str]:
        """Further name -> first name, of parameters and buffers that have several."""
        first = {id(tensor): name for name, tensor in (*self.parameters.items(), *self.buffers.items())}
        named = [
            (f"{path}.{name}" if path else name, tensor)
            for path, module in self.model.named_modules(remove_duplicate=False)
            for name, tensor in (*module._parameters.items(), *module._buffers.items())
            if tensor is not None
        ]
        return {name: first[id(tensor)] for name, tensor in named if first[id(tensor)] != name}


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters, then buffers, each once, by the first of its names."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def aliases_of(model: nn.Module) -> dict[str, str]:
    """Further name -> first name, of parameters and buffers that have several."""
    return Contents(model).aliases()


def module_types(model: nn.Module) -> dict[str, str]:
    """Qualified type name of each module, by path."""
    return {path: qualified_name(type(module)) for path, module in model.named_modules()}


def qualified_name(kind: type) -> str:
    """`torch.optim.adam.Adam` for the class Adam."""
    return f"{kind.__module__}.{kind.__qualname__}"
