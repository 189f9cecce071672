"""What a model computes before a growth, and how exactly it can be said."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from growkit.discovery.inputs import CallModel
from growkit.errors import InputsError
from growkit.growth.outputs import Outputs, is_constant, relative, rounding
from growkit.growth.running import Runs, Way

EXACT = 1e-12
"""Most relative deviation of an exact growth computed in float64."""

_TELLING = 1.0
"""A tolerance of this much says nothing: outputs that are all zero would pass."""


@dataclass(frozen=True)
class Reference:
    """Outputs of a model before a growth, and what deviation rounding may cause in each, by the way it was run.

    `skipped`: why train mode is not among the ways, if it is not.
    """

    measured: Mapping[Way, tuple[Outputs, tuple[float, ...]]]
    skipped: str | None


def measure(
    model: nn.Module,
    example_inputs: Any,
    *,
    float64: bool = False,
    call: CallModel | None = None,
    rounded: Collection[str] | None = None,
) -> Reference:
    """What a model computes now, and how exactly.

    `rounded`: names of the tensors whose entries a growth rounds; None if it may be any parameter.

    Raises:
        InputsError: nothing that can be compared, or an output that is nothing but rounding.
    """
    runs = Runs(model, example_inputs, call)
    first, wide = Way(float64=float64), Way(float64=True)
    outputs = runs(first)
    _check(outputs)
    every = [name for name, _ in model.named_parameters()]
    floats = [t.dtype for t in (*outputs, *model.parameters()) if t.is_floating_point()]
    lowest = torch.float64 if float64 else max(floats, key=lambda dtype: torch.finfo(dtype).eps)
    if lowest == torch.float64:
        rule, best = _Rule(EXACT, 0.0, ()), first
        if not float64 and (exact := _without_casts(runs, outputs)) is not None:
            best, outputs = wide, exact
        measured = {best: (outputs, rule.tolerances(runs, best, outputs))}
    else:
        rule, best = _Rule(EXACT, 2.0, every if rounded is None else rounded), wide
        try:
            exact = runs(wide)
        except InputsError:  # an op, or a device, without float64
            rule, best = _Rule(16 * torch.finfo(lowest).eps, 8.0, every), first
            measured = {first: (outputs, rule.tolerances(runs, first, outputs))}
            _check_telling(measured[first][1], outputs)
        else:
            measured = {wide: (exact, rule.tolerances(runs, wide, exact))}
            tolerances = tuple(
                max(8 * rounding(a, b), 16 * torch.finfo(lowest).eps) for a, b in zip(exact, outputs, strict=True)
            )
            if max(tolerances) < _TELLING or not runs.are_random(first, _TELLING / 8):
                _check_telling(tolerances, outputs)
                measured[first] = outputs, tolerances
    way = replace(best, training=True)
    try:
        outputs = runs(way)
        _check(outputs)
        tolerances = rule.tolerances(runs, way, outputs)
        _check_telling(tolerances, outputs)
    except InputsError as error:
        cause = error.__cause__
        reason = error.given if cause is None else f"{type(cause).__name__}: {cause}".splitlines()[0]
        return Reference(measured, reason)
    return Reference({**measured, way: (outputs, tolerances)}, None)


def _without_casts(runs: Runs, outputs: Outputs) -> Outputs | None:
    """What a float64 model gives if the casts to a lower dtype inside it do nothing; None if it has none."""
    try:
        exact = runs(Way(float64=True))
    except InputsError:
        return None
    alike = [t.shape for t in exact] == [t.shape for t in outputs]
    casts = alike and any(relative(a, b)[1] > EXACT for a, b in zip(exact, outputs, strict=True))
    return exact if casts else None


@dataclass(frozen=True)
class _Rule:
    """Tolerances: `factor` times the deviation caused by `shaken` weights off by one in the last place, or `least`.

    Rounding moves a weight by half of that at most, by a quarter on average.
    """

    least: float
    factor: float
    shaken: Collection[str]

    def tolerances(self, runs: Runs, way: Way, outputs: Outputs) -> tuple[float, ...]:
        """One for each output."""
        found = [self.least] * len(outputs)
        for signs in (1, 2) if self.shaken else ():
            pairs = zip(outputs, runs(way, shaken=self.shaken, signs=signs), strict=True)
            found = [max(most, self.factor * relative(a, b)[1]) for most, (a, b) in zip(found, pairs, strict=True)]
        return tuple(found)


def _check(outputs: Outputs) -> None:
    if not outputs:
        raise InputsError(
            "a model whose result holds no floating-point tensor",
            "outputs with tensors, in any nesting of tuples, lists, mappings and objects",
            "pass call=lambda model, inputs: ... that returns the tensors to compare",
        )
    if not any(t.isfinite().any() for t in outputs):
        raise InputsError(
            "a model whose outputs hold no finite number",
            "inputs on which the model gives numbers",
            "look for the first module with infinite or undefined results, or pass other inputs",
        )
    if is_constant(outputs):
        raise InputsError(
            "a model whose outputs are one number throughout, of which nothing can be verified",
            "inputs on which the outputs depend on what the model has learned",
            "pass other inputs, not all zero for instance; if a layer is zero at first, train for a step before, or "
            "pass call=lambda model, inputs: ... that returns what the layer reads",
        )


def _check_telling(tolerances: tuple[float, ...], outputs: Outputs) -> None:
    for number, (tolerance, output) in enumerate(zip(tolerances, outputs, strict=True)):
        if not tolerance < _TELLING:
            raise InputsError(
                f"output tensor {number} (of {len(outputs)}), whose own rounding in {output.dtype} is "
                f"{tolerance / 8:.1e} of its largest value",
                f"outputs that are right to {_TELLING / 8}: of less exact ones, nothing can be verified",
                "use a larger dtype, or other inputs; growkit.verify(..., float64=True) looks past rounding, and "
                "call=lambda model, inputs: ... may leave this output out",
            )
