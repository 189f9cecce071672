"""Growing every axis of a model, alone and together, and comparing what comes out without code that grows."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from growkit.axes.axis import Axis, Lock
from growkit.axes.expressions import Role
from growkit.discovery.call import OTHERS
from growkit.discovery.discover import discover
from growkit.discovery.inputs import leaves_in, run_model
from growkit.discovery.untouched import untouched
from growkit.errors import GrowkitError, InputsError, TieError
from growkit.growth.api import grow
from growkit.growth.configs import CONFIGS
from growkit.growth.float64 import float64
from growkit.growth.plan import Plan
from growkit.growth.planning import make_plan
from growkit.growth.rebuild import Factory
from growkit.maps.methods.table import METHODS
from growkit.testing.zoo.entry import Entry

EXACT = 1e-12
"""Most relative deviation of an exact growth, in float64."""

INTERFACE = ("input", "output", "vocabulary", "fixed")
"""Kinds of axes that a growth leaves alone: what goes in and comes out, and what no parameter produces."""

COMBINED = ({"stream": 2.0, "heads": 2.0}, {"stream": 1.5, "heads": 2.0})
"""Factors of the two growths of many axes at once; every other axis grows by half its size."""


@dataclass(frozen=True)
class Attempt:
    """One growth that was tried.

    `outcome`: "exact"; "refused", before anything was touched; "caught", refused by verification; "wrong", which must
    never be. `reason` says why it is not exact.
    """

    widen: Mapping[str, int]
    method: str | None
    outcome: str
    reason: str = ""
    deviation: float = 0.0


@dataclass
class Sweep:
    """One model in float64, its axes, and what came of growing them."""

    model: nn.Module
    inputs: Any
    factory: Factory | None = None
    """What the model grows by if it cannot grow in place."""
    layouts: Mapping[str, str] | None = None
    joint: Collection[Collection[str]] = ()
    """Globs of axes that one size of the factory makes: they grow to the same size."""
    attempts: list[Attempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = discover(self.model, self.inputs, self.layouts)
        self.before = _outputs(self.model, self.inputs)

    @property
    def unlocked(self) -> list[str]:
        """Names of the axes that admit something."""
        return [axis.name for axis in self.table if not axis.locked]

    @property
    def grown(self) -> set[str]:
        """Axes that grew exactly at least once."""
        return {name for attempt in self.attempts if attempt.outcome == "exact" for name in attempt.widen}

    def of(self, outcome: str) -> list[Attempt]:
        """The attempts with this outcome."""
        return [attempt for attempt in self.attempts if attempt.outcome == outcome]

    def every_axis(self) -> None:
        """Each axis alone, or with those it is tied to.

        By every method, to a multiple of its size and to none; of axes that are alike, such as those of equal
        layers, all but the first grow once, by the method that growkit chooses.
        """
        seen = set()
        for axis in self.table:
            if axis.locked:
                continue
            mirrored = _likeness(axis) in seen
            seen.add(_likeness(axis))
            for method in (None,) if mirrored else METHODS:
                for new in (2 * axis.size,) if mirrored else (axis.size + 1, 2 * axis.size):
                    self.grow({axis.name: new}, method)

    def together(self, factors: Mapping[str, float], otherwise: float) -> Attempt | None:
        """As many axes as can grow together, by factors for their kinds; what a factor does not do, 2.0 may.

        With a retrace: every grown parameter is read at its new size.
        """
        widen: dict[str, int] = {}
        plan = None
        for axis in self.table:
            if axis.locked or axis.kind in INTERFACE:
                continue
            for factor in (factors.get(axis.kind, otherwise), 2.0):
                found = None if axis.name in widen else self.plan(widen | {axis.name: round(axis.size * factor)})
                if isinstance(found, Plan):
                    plan, widen = found, {step.axis: step.new for step in found.width}
        return None if plan is None else self._done(plan, None, verified=True)

    def grow(self, widen: Mapping[str, int], method: str | None = None) -> Attempt:
        """One attempt, together with the axes that the error of a tie asks for."""
        plan = self.plan(widen, method)
        if isinstance(plan, Plan):
            return self._done(plan, method)
        attempt = Attempt(dict(widen), method, "refused", str(plan))
        self.attempts.append(attempt)
        return attempt

    def plan(self, widen: Mapping[str, int], method: str | None = None) -> Plan | GrowkitError:
        """A plan, with what the factory builds alike and what the error of a tie asks for; or why there is none."""
        widen = self._jointly(widen)
        try:
            return make_plan(self.table, widen, method=method, leave=self.table.unread)
        except TieError as error:
            suggested = re.search(r"widen=(\{.*\})", error.next_step)
            if suggested is None:
                return error
            again = ast.literal_eval(suggested[1])
        except GrowkitError as error:
            return error
        try:
            return make_plan(self.table, again, method=method, leave=self.table.unread)
        except TieError:
            raise AssertionError(f"the growth that a TieError suggests breaks a tie: {again}") from None
        except GrowkitError as error:
            return error

    def _jointly(self, widen: Mapping[str, int]) -> dict[str, int]:
        found = dict(widen)
        for name, new in widen.items():
            for globs in self.joint:
                if any(fnmatchcase(name, glob) for glob in globs):
                    found |= {axis.name: new for axis in self.table if any(fnmatchcase(axis.name, g) for g in globs)}
        return found

    def _done(self, plan: Plan, method: str | None, verified: bool = False) -> Attempt:
        """A plan that was made must be kept exactly, and if it is not, verification must say so."""
        widen = {step.axis: step.new for step in plan.width}
        outcome, reason, deviation = "exact", "", 0.0
        try:
            deviation = self._deviation(plan, self.inputs if verified else None)
        except GrowkitError as error:
            broken = isinstance(error, InputsError)  # the grown model accepts the inputs no more
            outcome = "caught" if verified else "wrong" if broken else "refused"
            reason = str(error)
        except Exception as error:
            outcome, reason = "wrong", f"{type(error).__name__}: {error}"
        if deviation > EXACT:
            outcome, reason = "wrong", f"a relative deviation of {deviation:.1e}"
        if outcome == "wrong" and not verified:
            try:
                self._deviation(plan, self.inputs)
            except GrowkitError as error:
                outcome, reason = "caught", str(error)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
        attempt = Attempt(widen, method, outcome, reason, deviation)
        self.attempts.append(attempt)
        return attempt

    def _deviation(self, plan: Plan, example_inputs: Any) -> float:
        copied = copy.deepcopy(self.model) if self.factory is None else self.model
        with nullcontext() if example_inputs is not None else patch.dict(CONFIGS, clear=True):  # dozens of models
            grown = grow(copied, plan, example_inputs=example_inputs, factory=self.factory).model
        after = _outputs(grown, self.inputs)
        assert len(after) == len(self.before)
        return max(_relative(old, new) for old, new in zip(self.before, after, strict=True))


def _relative(old: Tensor, new: Tensor) -> float:
    """Of the first units: an output that grew has the others behind them."""
    part = new[tuple(slice(size) for size in old.shape)]
    if part.shape != old.shape:
        return float("inf")
    if not old.is_floating_point():
        return float(not torch.equal(old, part))
    deviation = float((part - old).abs().max() / old.abs().max().clamp_min(1e-300))
    return deviation if deviation == deviation else float("inf")


@torch.no_grad()
def _outputs(model: nn.Module, inputs: Any) -> list[Tensor]:
    """All tensors that a model gives, in float64 throughout, whatever it casts to; caches that it fills are emptied."""
    with untouched(model), float64():
        return [tensor.clone() for tensor in leaves_in(run_model(model, inputs, None))]


def _likeness(axis: Axis) -> tuple[Any, ...]:
    """The same for axes of different layers that occur in the same places."""
    places = {(anywhere(str(occurrence)), occurrence.role) for occurrence in axis.occurrences}
    return axis.size, axis.kind, axis.admits, frozenset(places)


def swept(entry: Entry, equal_sizes: bool) -> Sweep:
    """A model of the zoo, all of whose axes were grown, one by one and together."""
    sweep = Sweep(*entry.make(equal_sizes), entry.factory, entry.layouts, entry.joint)
    sweep.every_axis()
    for factors in COMBINED:
        sweep.together(factors, 1.5)
    return sweep


def wanted(sweep: Sweep, entry: Entry) -> list[Axis]:
    """The axes that a person would want to grow: all but the interface, kernels, and what the entry excepts."""
    return [
        axis
        for axis in sweep.table
        if (axis.kind not in INTERFACE or (axis.kind == "fixed" and _is_consumed(axis)))
        and not any(fnmatchcase(axis.name, glob) for glob in entry.unwanted)
    ]


def refusals(sweep: Sweep, entry: Entry) -> dict[str, str]:
    """The axes that a person would want to grow and that never grew, alike ones once, with the reason."""
    found: dict[str, str] = {}
    for axis in wanted(sweep, entry):
        if axis.name in sweep.grown:
            continue
        locks = [_said(lock) for lock in axis.locks]
        tried = [_shortened(attempt.reason) for attempt in sweep.attempts if axis.name in attempt.widen]
        found.setdefault(anywhere(axis.name), (locks or tried[-1:] or ["never tried"])[0])
    return found


def _said(lock: Lock) -> str:
    """The reason with its place, and what would make the growth possible, if it is said."""
    instead, _, others = lock.next_step.rpartition("; or ")
    where = f" (at {anywhere(lock.where)})" if lock.where else ""
    return lock.reason + where + ("" if lock.next_step == OTHERS else f"; {instead or others}")


def _shortened(message: str) -> str:
    """The first and the last line of an error: what is wrong, and what to do."""
    first, *others = message.splitlines() or [""]
    return "; ".join([first, *(line.partition("next step: ")[2] for line in others[-1:])])


def anywhere(name: str) -> str:
    """A name with `*` for the numbers of layers in it."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", name)


def _is_consumed(axis: Axis) -> bool:
    return any(occurrence.role is Role.CONSUMES for occurrence in axis.occurrences)
