"""Noticing that a model changed although nobody said so, or that its optimizer did not follow."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch

from growkit.errors import EngineError
from growkit.train.runtime import Runtime

_SHOWN = 4


class ModelWatch:
    """Remembers which parameter objects a model has, and whether the optimizers hold all of them.

    The references are weak, so that the watch keeps no parameter of an older structure alive.
    """

    def __init__(self, runtime: Runtime):
        self._runtime = runtime
        self.accept()

    def accept(self) -> None:
        """Takes the model as it is now for the one to compare with."""
        self._known: list[tuple[str, weakref.ref[torch.Tensor], torch.Size]] = [
            (name, weakref.ref(parameter), parameter.shape)
            for name, parameter in self._runtime.model.named_parameters()
        ]
        self._all_held = not self._unheld()
        self.parameter_count = self._runtime.parameter_count()
        """Number of parameter entries at the last `accept`."""

    def check_unchanged(self) -> None:
        """Compares the parameter objects and their shapes with those accepted.

        Raises: EngineError, with names, where one was replaced, resized, added or removed.
        """
        now = list(self._runtime.model.parameters())
        if len(now) == len(self._known) and all(
            reference() is parameter and parameter.shape == shape
            for parameter, (_, reference, shape) in zip(now, self._known, strict=True)
        ):
            return
        raise EngineError(
            f"the model was changed without saying so: {_shortened(self._changed_names())}",
            "a change that a callback returns, or that a service makes",
            "return StepCallbackReturn(updated_model=model), or the result of growth.request(...)",
        )

    def check_followed(self) -> None:
        """Whether the optimizers followed a change of the model in place.

        Raises: EngineError where they hold parameters that the model has no more, or miss new ones.
        """
        held, present = self._held(), {id(parameter) for parameter in self._runtime.model.parameters()}
        stale = [
            name
            for name, reference, _ in self._known
            if (parameter := reference()) is not None and id(parameter) in held and id(parameter) not in present
        ]
        next_step = "change the model with growkit, with optimizers=optimizer, or return a new instance"
        if stale:
            raise EngineError(
                f"the optimizer still holds parameters that the model has no more: {_shortened(stale)}",
                "an optimizer that follows the model",
                next_step,
            )
        if self._all_held and (unheld := self._unheld()):
            raise EngineError(
                f"no optimizer holds the new parameters {_shortened(unheld)}: they would not be trained",
                "an optimizer that follows the model",
                next_step,
            )

    def _held(self) -> set[int]:
        optimizers = self._runtime.optimizers.values()
        return {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}

    def _unheld(self) -> list[str]:
        held, model = self._held(), self._runtime.model
        return [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in held]

    def _changed_names(self) -> list[str]:
        known = {name: (reference, shape) for name, reference, shape in self._known}
        now = dict(self._runtime.model.named_parameters())
        changed = []
        for name, parameter in now.items():
            if name not in known:
                changed.append(f"{name} (added)")
            elif known[name][0]() is not parameter:
                changed.append(f"{name} (replaced)")
            elif known[name][1] != parameter.shape:
                changed.append(f"{name} (resized)")
        return changed + [f"{name} (removed)" for name in known if name not in now] or ["the order of its parameters"]


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
