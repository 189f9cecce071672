"""The state of one parameter, grown along with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose, prod
from typing import Literal

from torch import Tensor

from growkit.errors import OptimizerError
from growkit.maps.axis_map import NEW
from growkit.maps.lifting import DimMap, count_new
from growkit.maps.methods.method import Fill
from growkit.optim.rules import NEW_STATES, NewState, OptimizerSpec, gradient_factors

Status = Literal["exact", "approximate", "new", "reset"]


@dataclass(frozen=True)
class SlotReport:
    """What became of one slot.

    `exact`: what the grown net would have accumulated; `approximate`: close to it, `reason` says why; `new`: some
    entries have no past, the others are exact; `reset`: dropped, for old entries too, so that it starts afresh.
    """

    slot: str
    status: Status
    reason: str


def remap_state(
    state: Mapping[str, object],
    group: Mapping[str, object],
    spec: OptimizerSpec,
    dims: Sequence[DimMap | None],
    *,
    new_state: NewState = "mean",
) -> tuple[dict[str, object], tuple[SlotReport, ...]]:
    """The state of a grown parameter, and a report for each slot. Changes nothing.

    Args:
        state: state of the old parameter as `check_optimizer` accepts it; empty before the first step.
        group: its parameter group; only settings are read.
        spec: the rules of the optimizer.
        dims: one map for each dim of the parameter, None where it does not grow.
        new_state: what new entries start with, see `NewState`.

    Raises:
        OptimizerError: `new_state` is unknown, or a grown dim has no gradient.
    """
    if new_state not in NEW_STATES:
        raise OptimizerError(f"new_state={new_state!r}", ", ".join(NEW_STATES), "choose one of these")
    grown = [dim for dim in dims if dim is not None]
    has_new = any(dim.new for dim in grown)
    if has_new and new_state == "reset":
        reason = "new_state='reset' drops the whole state of parameters with new entries, that of old entries too"
        return {}, tuple(SlotReport(key, "reset", reason) for key in state)
    decay = ""
    if spec.couples_decay(group) and not _values_move_like_gradients(grown):
        decay = f"holds weight decay ({group['weight_decay']}), which moves like the values; moved like the gradients"
    remapped: dict[str, object] = {}
    reports = []
    for key, slot in state.items():
        remapped[key] = None if slot is None else spec.state[key].remap(slot, dims, new_state)
        if not isinstance(slot, Tensor) or slot.dim() == 0:
            reports.append(SlotReport(key, "exact", ""))
            continue
        if Fill.MEAN in {fill for dim in grown for fill in dim.fill}:
            reports.append(SlotReport(key, "approximate", _AVERAGED))
            continue
        fresh = f"{count_new(slot.shape, dims)} entries are new" if has_new else ""
        status: Status = "approximate" if decay else "new" if has_new else "exact"
        reports.append(SlotReport(key, status, "; ".join(filter(None, (decay, fresh)))))
    return remapped, tuple(reports)


_AVERAGED = (
    "new units are the mean of the old ones, whose gradients then mix; moved as if they did not (tensors that write an "
    "axis grown by 'mean_pad' or 'std_pad')"
)


def _values_move_like_gradients(grown: Sequence[DimMap]) -> bool:
    """Whether the products of the value factors equal those of the gradient factors on every entry with a past.

    They do if value / gradient is the same on the whole of each dim, and these ratios multiply to 1.
    """
    ratios = []
    for dim in grown:
        factors = zip(dim.source, dim.value, gradient_factors(dim), strict=True)
        past = [(value, gradient) for source, value, gradient in factors if source != NEW]
        if any(gradient == 0 for _, gradient in past):
            return False
        of_dim = [value / gradient for value, gradient in past]
        if not all(isclose(ratio, of_dim[0], rel_tol=1e-12) for ratio in of_dim):
            return False
        ratios.append(of_dim[0])
    return isclose(prod(ratios), 1.0, rel_tol=1e-12)
