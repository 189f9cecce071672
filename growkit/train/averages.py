"""A running average of a model's weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from growkit.errors import EngineError

_HALF = (torch.float16, torch.bfloat16)


class Averages(dict[str, Tensor]):
    """The exponential moving average of parameters, and of float buffers that are saved, by name; tied ones once.

    A mapping of tensors, so that it grows with the model as its follower. Averages of half-precision weights are
    float32, in which small changes are not lost. Buffers that hold infinities, as masks do, are left out.
    """

    def __init__(self, model: nn.Module):
        super().__init__(_copies(_averaged(model)))
        self.updates = 0
        """How often the weights were added to the averages."""
        self._is_inside = False
        self._places: list[tuple[dict[str, Any], str]] | None = None

    @torch.no_grad()
    def advance(self, model: nn.Module, decay: float) -> None:
        """average = d * average + (1 - d) * weight, with d = min(decay, (1 + n) / (10 + n)) at the n-th update.

        Source: tf.train.ExponentialMovingAverage, num_updates.
        """
        if self._places is None:
            self._places = _places(model, self)
        averages, n = list(self.values()), self.updates
        now = [holder[name] for holder, name in self._places]
        now = [new if new.dtype == old.dtype else new.to(old.dtype) for new, old in zip(now, averages, strict=True)]
        torch._foreach_lerp_(averages, now, 1 - min(decay, (1 + n) / (10 + n)))
        self.updates += 1

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """The model has the averages for weights inside the context, and bit for bit its own ones afterwards."""
        self.check_outside("a second swap of weights")
        tensors = _tensors(model)
        own = {name: tensors[name].detach().clone() for name in self}
        self._is_inside = True
        try:
            _copy(self, tensors)
            yield
        finally:
            _copy(own, tensors)
            self._is_inside = False

    def check_outside(self, what: str) -> None:
        """Refuses what would take averages for the model's own weights.

        Raises: EngineError within `inside`.
        """
        if self._is_inside:
            raise EngineError(
                f"{what} while the model has averages for weights",
                "the model's own weights",
                "leave `with runtime.averaged()` first",
            )

    def check_follows(self, model: nn.Module) -> None:
        """Accepts a model whose change the averages followed.

        Raises: EngineError for one that has other tensors, or other shapes.
        """
        self._places = None
        tensors = _tensors(model)
        faults = [name for name, average in self.items() if name not in tensors or tensors[name].shape != average.shape]
        faults += [name for name, _ in model.named_parameters() if name not in self]
        if faults:
            raise EngineError(
                f"the average of the weights did not follow the model: {', '.join(faults[:4])}",
                "averages that are changed along with the model",
                "grow the model with a service, or with growkit and followers=engine.runtime.followers",
            )

    def move_to(self, model: nn.Module, parameter_map: Mapping[str, str]) -> list[str]:
        """Goes on with another model (`parameter_map`: new name -> old name); gives the names that start anew."""
        old, fresh = dict(self), _averaged(model)
        kept = {
            name: old[origin]
            for name, tensor in fresh.items()
            if (origin := parameter_map.get(name, name)) in old and old[origin].shape == tensor.shape
        }
        anew = {name: tensor for name, tensor in fresh.items() if name not in kept}
        self.clear()
        self.update({**kept, **_copies(anew)})
        self._places = None
        return list(anew)

    def state_dict(self) -> dict[str, Any]:
        """The averages by name, and the number of updates."""
        return {"tensors": dict(self), "updates": self.updates}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over the values of a state that `state_dict` returned.

        Raises: EngineError for averages of another structure.
        """
        given = state["tensors"]
        if differing := [
            n for n in {**self, **given} if n not in given or n not in self or given[n].shape != self[n].shape
        ]:
            raise EngineError(
                f"a saved average that differs from the model in {', '.join(differing[:4])}",
                "averages of the model's own names and shapes",
                "load it into the model that it was saved of",
            )
        _copy(given, self)
        self.updates = state["updates"]


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in source.items():
        target[name].copy_(tensor)


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _averaged(model: nn.Module) -> dict[str, Tensor]:
    buffers = {
        f"{path}.{name}" if path else name: buffer
        for path, module in model.named_modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and name not in module._non_persistent_buffers_set
    }
    usable = {
        name: buffer for name, buffer in buffers.items() if buffer.is_floating_point() and bool(buffer.isfinite().all())
    }
    return {**dict(model.named_parameters()), **usable}


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor.detach().to(torch.float32 if tensor.dtype in _HALF else tensor.dtype, copy=True)
        for name, tensor in tensors.items()
    }


def _places(model: nn.Module, names: Mapping[str, object]) -> list[tuple[dict[str, Any], str]]:
    """Where the tensors of these names stand: looking them up there is cheap, and sees buffers that were replaced."""
    found = []
    for path in names:
        parent, _, name = path.rpartition(".")
        module = model.get_submodule(parent)
        found.append((module._parameters if name in module._parameters else module._buffers, name))
    return found
