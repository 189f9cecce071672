"""The table of optimizers with exact state rules. Open: `register` adds to it."""

from __future__ import annotations

import inspect

import torch

from growkit.errors import OptimizerError
from growkit.nn.contents import qualified_name
from growkit.optim.adam import ADAM, ADAMW
from growkit.optim.rules import OptimizerSpec
from growkit.optim.sgd import SGD

_TABLE: dict[type | str, OptimizerSpec] = {
    torch.optim.SGD: SGD,
    torch.optim.Adam: ADAM,
    torch.optim.AdamW: ADAMW,
}


def register(optimizer: type[torch.optim.Optimizer] | str, spec: OptimizerSpec) -> None:
    """Adds an optimizer class, or the qualified name of one that should not be imported, such as `pkg.module.Lion`.

    Raises:
        OptimizerError: the class or its name is in the table already.
    """
    name = optimizer if isinstance(optimizer, str) else qualified_name(optimizer)
    if optimizer in _TABLE or name in registered():
        raise OptimizerError(
            f"a second spec for {name}",
            f"one spec for each optimizer; registered: {', '.join(registered())}",
            "register a subclass or another name, or drop the second registration",
        )
    _TABLE[optimizer] = spec


def find_spec(optimizer_type: type) -> OptimizerSpec | None:
    """The spec of an optimizer class or of its nearest base that has one; None if there is none that can be trusted.

    A base's spec holds for a subclass only if both run the same `step`: one of its own may use the state differently
    under the same keys.
    """
    for base in optimizer_type.__mro__:
        spec = _TABLE.get(base) or _TABLE.get(qualified_name(base))
        if spec is not None:
            return spec if _same_step(optimizer_type, base) else None
    return None


def registered() -> tuple[str, ...]:
    """Qualified names of the optimizers in the table."""
    return tuple(key if isinstance(key, str) else qualified_name(key) for key in _TABLE)


def _same_step(optimizer_type: type[torch.optim.Optimizer], base: type[torch.optim.Optimizer]) -> bool:
    # torch wraps `step` once for each class at the first construction, so the attributes themselves differ.
    one, other = (inspect.unwrap(cls.step) for cls in (optimizer_type, base))
    return one is other
