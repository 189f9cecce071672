"""Does the grown model compute what it computed before? Measured, in its own dtype or in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from growkit.discovery.inputs import CallModel, run_model
from growkit.discovery.untouched import untouched, unwrap
from growkit.errors import InputsError
from growkit.growth.float64 import float64 as in_float64

Outputs = list[Tensor]

EXACT = 1e-12
"""Most relative deviation of an exact growth computed in float64."""

_TELLING = 1.0
"""A tolerance of this much says nothing: outputs that are all zero would pass."""


@dataclass(frozen=True)
class Verification:
    """How far two models are apart on the same inputs.

    `max_abs`: largest difference; `max_rel`: the same over the largest value; `tolerance`: what rounding explains. All
    three are of one output tensor, the worst: that with the largest `max_rel` for its tolerance. `first_deviation`:
    path of the first module whose result differs by more, None if none does or none can be compared.
    """

    max_abs: float
    max_rel: float
    tolerance: float
    first_deviation: str | None = None

    @property
    def passed(self) -> bool:
        """Whether rounding explains the deviation."""
        return self.max_rel <= self.tolerance

    def __str__(self) -> str:
        verdict = "kept" if self.passed else "NOT kept"
        where = f", first at {self.first_deviation}" if self.first_deviation else ""
        deviation = f"relative deviation {self.max_rel:.1e} (rounding explains {self.tolerance:.1e})"
        return f"function {verdict}: {deviation}{where}"


@dataclass(frozen=True)
class Reference:
    """Outputs of a model before a growth, and what deviation rounding may cause in each."""

    outputs: Outputs
    tolerances: tuple[float, ...]


def verify(
    before: nn.Module, after: nn.Module, example_inputs: Any, *, float64: bool = False, call: CallModel | None = None
) -> Verification:
    """Compares two models on the same inputs, in eval mode, without gradients; changes neither.

    Outputs that grew are compared over their old part. With `float64` both run in double precision with the
    weights they have, and the tolerance is 1e-12; else in their own dtype, and the tolerance follows from the
    measured rounding error of `before`.

    Raises:
        InputsError: a model does not accept the inputs, the outputs do not correspond, or an output is so inexact in
            its own dtype that nothing can be said of it.
    """
    reference = measure(before, example_inputs, float64=float64, call=call)
    result = compare(reference, after, example_inputs, float64=float64, call=call)
    if result.passed:
        return result
    old, new = (record(model, example_inputs, float64=float64, call=call) for model in (before, after))
    return replace(result, first_deviation=first_deviation(old, new, result.tolerance))


def measure(
    model: nn.Module, example_inputs: Any, *, float64: bool = False, call: CallModel | None = None
) -> Reference:
    """What a model computes now, and how exactly.

    Raises:
        InputsError: nothing that can be compared, or an output that is nothing but rounding.
    """
    outputs = _floats(_run(model, example_inputs, float64, call))
    if not outputs:
        raise InputsError(
            "a model whose result holds no floating-point tensor",
            "outputs with tensors, in any nesting of tuples, lists, mappings and dataclasses",
            "pass call=lambda model, inputs: ... that returns the tensors to compare",
        )
    if not any(t.isfinite().any() for t in outputs):
        raise InputsError(
            "a model whose outputs hold no finite number",
            "inputs on which the model gives numbers",
            "look for the first module with infinite or undefined results, or pass other inputs",
        )
    lowest = max((t.dtype for t in outputs), key=lambda dtype: torch.finfo(dtype).eps)
    if lowest == torch.float64:
        return Reference(outputs, (EXACT,) * len(outputs))
    exact = _floats(_run(model, example_inputs, True, call))
    tolerances = []
    for number, (a, b) in enumerate(zip(exact, outputs, strict=True)):
        rounding = _rounding(a, b)
        tolerances.append(max(8 * rounding, 16 * torch.finfo(lowest).eps))
        if not tolerances[-1] < _TELLING:
            raise InputsError(
                f"output tensor {number} (of {len(outputs)}), whose own rounding in {b.dtype} is {rounding:.1e} of its "
                "largest value",
                f"outputs that are right to {_TELLING / 8}: of less exact ones, nothing can be verified",
                "use a larger dtype, or other inputs; growkit.verify(..., float64=True) looks past rounding, and "
                "call=lambda model, inputs: ... may leave this output out",
            )
    return Reference(outputs, tuple(tolerances))


def compare(
    reference: Reference, model: nn.Module, example_inputs: Any, *, float64: bool = False, call: CallModel | None = None
) -> Verification:
    """How far a model is from what was measured before, each output by its own tolerance."""
    outputs = _floats(_run(model, example_inputs, float64, call))
    if len(outputs) != len(reference.outputs):
        raise InputsError(
            f"{len(outputs)} output tensors after, {len(reference.outputs)} before",
            "equally many",
            "compare models of one kind",
        )
    found = [
        Verification(*_relative(a, _old_part(a, b)), tolerance)
        for a, b, tolerance in zip(reference.outputs, outputs, reference.tolerances, strict=True)
    ]
    return max(found, key=lambda output: output.max_rel / output.tolerance)


def record(
    model: nn.Module, example_inputs: Any, *, float64: bool = False, call: CallModel | None = None
) -> dict[str, Outputs]:
    """What each module returns, by path, in the order in which they finish."""
    found: dict[str, Outputs] = {}
    paths = {module: path for path, module in model.named_modules()}

    def hook(module: nn.Module, args: Any, result: Any) -> None:
        if module in paths:
            found.setdefault(paths[module], [t.clone() for t in _floats(result)])

    handle = nn.modules.module.register_module_forward_hook(hook)
    try:
        _run(model, example_inputs, float64, call)
    finally:
        handle.remove()
    return found


def first_deviation(
    before: Mapping[str, Outputs],
    after: Mapping[str, Outputs],
    tolerance: float,
    rename: Callable[[str], str] = lambda path: path,
) -> str | None:
    """Path of the first module whose results have the same shapes in both runs and differ."""
    for path, old in before.items():
        new = after.get(rename(path), [])
        alike = [t.shape for t in old] == [t.shape for t in new]
        if alike and any(_relative(a, b)[1] > tolerance for a, b in zip(old, new, strict=True)):
            return path or "(the whole model)"
    return None


def _run(model: nn.Module, example_inputs: Any, float64: bool, call: CallModel | None) -> Any:
    model = unwrap(model)
    with untouched(model), torch.no_grad(), in_float64() if float64 else nullcontext():
        return run_model(model, example_inputs, call)


def _floats(result: Any) -> Outputs:
    if hasattr(result, "to_tuple"):
        result = result.to_tuple()
    return [t for t in tree_leaves(result) if isinstance(t, Tensor) and t.is_floating_point()]


def _old_part(old: Tensor, new: Tensor) -> Tensor:
    if old.dim() != new.dim() or any(a > b for a, b in zip(old.shape, new.shape, strict=True)):
        raise InputsError(
            f"an output of shape {tuple(new.shape)} after, {tuple(old.shape)} before",
            "the same shape, or a larger one where the output grew",
            "compare models of one kind on the same inputs",
        )
    return new[tuple(slice(size) for size in old.shape)]


def _rounding(exact: Tensor, own: Tensor) -> float:
    """Relative deviation of a tensor from what float64 gives, where both are finite; infinite if they never are."""
    finite = exact.isfinite() & own.isfinite()
    return _relative(exact[finite], own[finite])[1] if finite.any() else _relative(exact, own)[1]


def _relative(old: Tensor, new: Tensor) -> tuple[float, float]:
    """Largest difference, and the same over the largest value; infinite where only one of the two is finite.

    Entries that are the same infinity in both (masked scores), or no number in both, do not differ.
    """
    old, new = old.double(), new.double()
    alike = (old == new) | (old.isnan() & new.isnan())
    old, new = (torch.where(alike & ~t.isfinite(), 0.0, t) for t in (old, new))
    if not old.numel():
        return 0.0, 0.0
    difference, scale = float((old - new).abs().max()), float(old.abs().max())
    if difference == 0:
        return 0.0, 0.0
    if not difference < float("inf") or scale == 0:
        return float("inf"), float("inf")
    return difference, difference / scale
