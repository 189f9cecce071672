"""Growing the axes of a model by everything that they admit, and comparing what comes out without code of growkit."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import growkit as gk
from growkit.errors import GrowkitError, TieError
from growkit.maps.methods.table import METHODS


@dataclass
class Sweep:
    """One model in float64, its axes, and what came of growing them."""

    model: nn.Module
    inputs: Any
    exact: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Refusals before anything was touched, by type of the error."""
    worst: float = 0.0
    """Largest relative deviation of an output."""
    grown: set[str] = field(default_factory=set)
    """Axes that grew at least once."""

    def __post_init__(self) -> None:
        self.table = gk.discover(self.model, self.inputs)
        self.before = outputs(self.model, self.inputs)

    @property
    def unlocked(self) -> list[str]:
        """Names of the axes that admit something."""
        return [axis.name for axis in self.table if not axis.locked]

    def plan(self, widen: Mapping[str, int], method: str | None = None) -> gk.Plan | None:
        """A plan, together with the axes that the error of a tie asks for; None if it is refused."""
        try:
            return gk.make_plan(self.table, dict(widen), method=method)
        except TieError as error:
            suggested = re.search(r"widen=(\{.*\})", error.next_step)
            again = ast.literal_eval(suggested[1]) if suggested else None
        except GrowkitError as error:
            self.refused[type(error).__name__] += 1
            return None
        try:
            if again is None:
                self.refused["TieError"] += 1
                return None
            return gk.make_plan(self.table, again, method=method)
        except TieError:
            raise AssertionError(f"the growth that a TieError suggests breaks a tie: {again}") from None
        except GrowkitError as error:
            self.refused[type(error).__name__] += 1
            return None

    def grow(self, plan: gk.Plan | None) -> None:
        """Grows a copy; a plan that was made must be kept exactly."""
        if plan is None:
            return
        grown = copy.deepcopy(self.model)
        gk.grow(grown, plan, example_inputs=self.inputs)
        after = outputs(grown, self.inputs)
        assert len(after) == len(self.before)
        for old, new in zip(self.before, after, strict=True):
            old_part = new[tuple(slice(size) for size in old.shape)]
            assert old_part.shape == old.shape
            self.worst = max(self.worst, float((old_part - old).abs().max() / old.abs().max()))
        self.exact += 1
        self.grown |= {step.axis for step in plan.width}

    def every_axis(self) -> None:
        """Each axis alone, or with those it is tied to, by each method, to a multiple of its size and to none."""
        for name in self.unlocked:
            size = self.table.sizes[name]
            for method in METHODS:
                for new in (size + 1, 2 * size):
                    self.grow(self.plan({name: new}, method))

    def all_at_once(self) -> None:
        """As many axes as can grow together, by the methods that growkit chooses."""
        widen: dict[str, int] = {}
        plan = None
        for name in self.unlocked:
            for new in (self.table.sizes[name] + 1, 2 * self.table.sizes[name]):
                longer = None if name in widen else self.plan(widen | {name: new})
                if longer is not None:
                    plan, widen = longer, {step.axis: step.new for step in longer.width}
        self.grow(plan)


@torch.no_grad()
def outputs(model: nn.Module, inputs: Any) -> list[Tensor]:
    """The tensors that a model in eval mode returns; positional inputs are a tensor or a tuple."""
    result = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    return [t for t in tree_leaves(result) if isinstance(t, Tensor)]
