"""Does the grown model compute what it computed before? In eval and in train mode, in its own dtype and in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from growkit.discovery.inputs import CallModel
from growkit.errors import InputsError
from growkit.growth.outputs import Outputs, floats_in, old_part, relative
from growkit.growth.reference import Reference, measure
from growkit.growth.running import AS_IT_IS, Runs, Way


@dataclass(frozen=True)
class Verification:
    """How far two models are apart on the same inputs.

    `max_abs`: largest difference; `max_rel`: the same over the largest value; `tolerance`: what rounding explains;
    `way`: the run it was measured in. All four are of one output tensor of one run, the worst: that with the largest
    `max_rel` for its tolerance. `first_deviation`: path of the first module whose result differs by more, None if none
    does or none can be compared. `training`: what is known of train mode, "kept", "NOT kept", or "not compared: " and
    the reason.
    """

    max_abs: float
    max_rel: float
    tolerance: float
    first_deviation: str | None = None
    training: str = "kept"
    way: Way = AS_IT_IS

    @property
    def passed(self) -> bool:
        """Whether rounding explains the deviation."""
        return self.max_rel <= self.tolerance

    def __str__(self) -> str:
        verdict = "kept" if self.passed else "NOT kept"
        where = f", first at {self.first_deviation}" if self.first_deviation else ""
        deviation = f"relative deviation {self.max_rel:.1e} (rounding explains {self.tolerance:.1e}), {self.way}"
        return f"function {verdict}: {deviation}{where}; train mode: {self.training}"


def verify(
    before: nn.Module, after: nn.Module, example_inputs: Any, *, float64: bool = False, call: CallModel | None = None
) -> Verification:
    """Compares two models on the same inputs, in eval and train mode, without gradients and dropout; changes neither.

    Outputs that grew are compared over their old part. Models in a lower dtype run in it, where the tolerance follows
    from the measured rounding error of `before`, and in float64 with the weights they have, where it follows from the
    rounding of weights. With `float64` they run in float64 only, and the tolerance is 1e-12.

    In train mode, parts that are in eval mode while the model is in train mode stay so. If train mode cannot be
    compared, since `before` raises in it or draws random numbers of its own, `training` of the result says so.

    Raises:
        InputsError: a model does not accept the inputs, the outputs do not correspond or are constant, or one is so
            inexact in its own dtype that nothing can be said of it.
    """
    reference = measure(before, example_inputs, float64=float64, call=call)
    result = compare(reference, after, example_inputs, call=call)
    if result.passed:
        return result
    old, new = (record(model, example_inputs, result.way, call=call) for model in (before, after))
    return replace(result, first_deviation=first_deviation(old, new, result.tolerance))


def compare(
    reference: Reference, model: nn.Module, example_inputs: Any, *, call: CallModel | None = None
) -> Verification:
    """How far a model is from what was measured before, each output by its own tolerance."""
    runs = Runs(model, example_inputs, call)
    training = f"not compared: {reference.skipped}" if reference.skipped else "kept"
    found = []
    for way, (old, tolerances) in reference.measured.items():
        new = runs(way)
        if len(new) != len(old):
            raise InputsError(
                f"{len(new)} output tensors after, {len(old)} before",
                "equally many",
                "compare models of one kind, run without outputs that hold something of each block, such as caches of "
                "keys (use_cache=False)",
            )
        pairs = zip(old, new, tolerances, strict=True)
        results = [Verification(*relative(a, old_part(a, b)), tolerance, way=way) for a, b, tolerance in pairs]
        worst = max(results, key=_excess)
        if way.training and not worst.passed:
            if runs.are_random(way, worst.tolerance):
                training = "not compared: the model draws random numbers in it, beside those of dropout"
                continue
            training = "NOT kept"
        found.append(worst)
    return replace(max(found, key=_excess), training=training)


def _excess(result: Verification) -> float:
    return result.max_rel / result.tolerance


def record(
    model: nn.Module, example_inputs: Any, way: Way = AS_IT_IS, *, call: CallModel | None = None
) -> dict[str, Outputs]:
    """What each module returns, by path, in the order in which they finish."""
    found: dict[str, Outputs] = {}
    paths = {module: path for path, module in model.named_modules()}

    def hook(module: nn.Module, args: Any, result: Any) -> None:
        if module in paths:
            found.setdefault(paths[module], [t.clone() for t in floats_in(result)])

    handle = nn.modules.module.register_module_forward_hook(hook)
    try:
        Runs(model, example_inputs, call)(way)
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
        if alike and any(relative(a, b)[1] > tolerance for a, b in zip(old, new, strict=True)):
            return path or "(the whole model)"
    return None
