"""Rules: how one slot of an optimizer's state grows along with its parameter; and the spec of an optimizer.

With G the gradient of the small net, the gradient of the grown one is G' = D G, where D gathers the old entries and
multiplies each by one factor per dimension (see `growkit.maps.axis_map`). A slot that is linear in the gradients moves
by D, a slot that is linear in their squares by D with squared factors: every entry of G' is a multiple of a single
entry of G, so squares have no cross terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor

from growkit import kernels
from growkit.errors import OptimizerError
from growkit.maps.axis_map import NEW
from growkit.maps.lifting import DimMap

NewState = Literal["mean", "zero", "reset"]
"""State of new entries. `mean`: a slot of even degree starts at the mean of the existing entries along the new axis,
others at 0. `zero`: every slot at 0. `reset`: the state of the whole parameter is dropped and starts afresh."""

NEW_STATES: tuple[str, ...] = get_args(NewState)


class Rule(Protocol):
    """What an optimizer's spec says about one state key."""

    def expected_shape(self, parameter_shape: Sequence[int]) -> tuple[int, ...]:
        """Shape that the slot has for a parameter of this shape."""

    def remap(self, slot: object, dims: Sequence[DimMap | None], new_state: NewState) -> object:
        """The slot of the grown parameter; shares no memory with the old one."""


@dataclass(frozen=True)
class Graded:
    """A slot of the parameter's shape, homogeneous of degree `degree` in the gradients.

    Law: new slot = gather(slot) * product over the dims of (gradient factor ** degree). New entries: 0 for an odd
    degree; for an even one the mean over the existing entries along the new axis, or 0 if `new_state="zero"`. (With a
    large step count, a second moment of 0 would let the first updates of an entry grow to several learning rates.)

    Source: Kingma & Ba 2015, Adam, Algorithm 1, applied to G' = N_out^T G M_in^T.
    """

    degree: int

    def expected_shape(self, parameter_shape: Sequence[int]) -> tuple[int, ...]:
        """The parameter's own shape."""
        return tuple(parameter_shape)

    def remap(self, slot: object, dims: Sequence[DimMap | None], new_state: NewState) -> Tensor:
        """The slot 'old_0 old_1 ...' as 'new_0 new_1 ...'; keeps dtype, device and memory format.

        Raises:
            OptimizerError: a grown dim has no gradient factors (running statistics are not optimized).
        """
        assert isinstance(slot, Tensor)
        maps = [None if dim is None else (dim.source, [g**self.degree for g in gradient_factors(dim)]) for dim in dims]
        grown = kernels.apply(slot, maps)
        if self.degree % 2 == 0 and new_state == "mean":
            for number, dim in enumerate(dims):
                if dim is not None and NEW in dim.source:
                    _fill_with_mean(grown, number, dim.source)
        return grown


@dataclass(frozen=True)
class Scalar:
    """One number per parameter that does not depend on its shape, such as a step count.

    A tensor is cloned, never shared: optimizers advance it in place, so that two parameters with one tensor would
    advance it twice.
    """

    def expected_shape(self, parameter_shape: Sequence[int]) -> tuple[int, ...]:
        """No dimension at all."""
        return ()

    def remap(self, slot: object, dims: Sequence[DimMap | None], new_state: NewState) -> object:
        """The same number."""
        return slot.clone() if isinstance(slot, Tensor) else slot


@dataclass(frozen=True)
class OptimizerSpec:
    """The rule of each state key, whether weight decay enters the state, and the degree of the update.

    `couples_decay` gives, for a parameter group, whether weight decay is added to the gradients before they are
    accumulated; the state then holds a part that moves like the values. `update_degree`: degree of an update in the
    gradients, 1 for SGD, 0 where it is divided by their size.
    """

    state: Mapping[str, Rule]
    couples_decay: Callable[[Mapping[str, object]], bool]
    update_degree: int


def gradient_factors(dim: DimMap) -> tuple[float, ...]:
    """The gradient factors of a dim that must have some.

    Raises:
        OptimizerError: it has none.
    """
    if dim.gradient is None:
        raise OptimizerError(
            "optimizer state for a tensor whose grown axis has no gradient there (a running statistic)",
            "state of parameters whose axes have the roles produces, consumes, gain or bias",
            "declare the layout of that parameter with one of these roles",
        )
    return dim.gradient


def _fill_with_mean(slot: Tensor, number: int, source: Sequence[int]) -> None:
    """Writes the mean over the existing positions of dim `number` into its new ones, which hold 0 before."""
    new = torch.tensor([j for j, old in enumerate(source) if old == NEW], device=slot.device)
    mean = slot.sum(number, keepdim=True) / (len(source) - len(new))
    shape = list(slot.shape)
    shape[number] = len(new)
    slot.index_copy_(number, new, mean.expand(shape))
