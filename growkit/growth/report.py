"""What a growth did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from growkit.axes.table import AxisTable
from growkit.growth.configs import ConfigReport
from growkit.growth.followers import Follower
from growkit.growth.plan import Plan
from growkit.growth.verify import Verification
from growkit.optim.remap import SlotReport


@dataclass(frozen=True)
class TensorChange:
    """One parameter or buffer that grew: its shapes, and how many entries are new rather than mapped.

    `was`: its name before the growth, if that was another.
    """

    name: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    new_entries: int
    was: str | None = None


@dataclass(frozen=True)
class Size:
    """Size of a model: parameters, bytes of parameters and buffers, FLOPs on the example inputs (None if not run)."""

    parameters: int
    bytes: int
    flops: int | None


@dataclass(frozen=True)
class Report:
    """What a growth did. All names are those after the growth, but for the keys of `renames` and `TensorChange.was`.

    `slots`: optimizer state of each grown parameter, each slot exact, approximate, new or reset, with the reason;
    `renames`: old name -> new name of what moved; `new_parameters`: parameters of new blocks;
    `unoptimized`: grown or new parameters that no given optimizer holds; `foreign`: parameters that optimizers
    hold and the model does not, untouched; `learning_rate_factors`: what would keep the training of the old
    function as it was (not applied); `verification`: None if no example inputs were given; `table`: the axes
    after the growth, as traced again; `layouts`: the layouts that were declared, as to declare them from now on;
    `configs`: of what other libraries built, whether their configs describe it now;
    `followers`: as they are now. With a factory, `model` and followers that are modules are new ones.
    """

    model: nn.Module
    plan: Plan
    before: Size
    after: Size
    tensors: tuple[TensorChange, ...]
    slots: Mapping[str, tuple[SlotReport, ...]]
    renames: Mapping[str, str]
    new_parameters: tuple[str, ...]
    unoptimized: tuple[str, ...]
    foreign: tuple[str, ...]
    learning_rate_factors: Mapping[str, float]
    warnings: tuple[str, ...]
    configs: tuple[ConfigReport, ...] = ()
    verification: Verification | None = None
    table: AxisTable | None = None
    layouts: Mapping[str, str] | None = None
    followers: tuple[Follower, ...] = ()

    def __str__(self) -> str:
        width = max([len(t.name) for t in self.tensors] + [len("tensor")])
        lines = [str(self.plan)]
        if self.tensors:
            lines += ["", f"{'tensor':{width}}  before -> after (new entries)   optimizer state"]
        for tensor in self.tensors:
            shapes = f"{_shape(tensor.before)} -> {_shape(tensor.after)} ({tensor.new_entries})"
            slots = ", ".join(f"{s.slot} {_status(s)}" for s in self.slots.get(tensor.name, ()))
            lines.append(f"{tensor.name:{width}}  {shapes:30}  {slots or '-'}")
        reasons = {
            (s.status, s.reason) for slots in self.slots.values() for s in slots if s.status in ("approximate", "reset")
        }
        lines += [f"{status}: {reason}" for status, reason in sorted(reasons)]
        if self.new_parameters:
            lines.append(f"new: {len(self.new_parameters)} parameters in new blocks, {self.new_parameters[0]} ...")
        if self.unoptimized:
            lines.append(
                f"in no given optimizer: {_some(self.unoptimized)}: these are new tensors, which an optimizer made "
                "before does not train"
            )
        if self.foreign:
            lines.append(f"the optimizers hold {len(self.foreign)} parameters that are not among these: left alone")
        lines += [str(config) for config in self.configs if config.describes]
        lines += [f"warning: {warning}" for warning in self.warnings]
        lines.append(
            f"parameters {self.before.parameters} -> {self.after.parameters}, "
            f"bytes {self.before.bytes} -> {self.after.bytes}"
            + ("" if self.after.flops is None else f", FLOPs {self.before.flops} -> {self.after.flops}")
        )
        lines.append(str(self.verification) if self.verification else "not verified: no example inputs were given")
        return "\n".join(lines)


def _status(slot: SlotReport) -> str:
    return "old entries exact" if slot.status == "new" else slot.status


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
