"""Elementwise functions, gates and sums.

A copy passes any elementwise function as it is, f(h)[copy] = f(h[copy]); a scaled one does not. New units that
nothing reads may do what they like, as long as it stays finite; units padded with zeros must stay zero, and must not
stay so for ever.
"""

from __future__ import annotations

from growkit.constraints.constraint import Constraint, Refusal, anything
from growkit.maps.axis_map import NEW, AxisMap

_TOTAL = frozenset(
    {
        *("relu", "relu6", "gelu", "silu", "sigmoid", "tanh", "exp", "expm1", "abs", "sin", "cos", "square", "power"),
        *(
            "softplus",
            "hardtanh",
            "hardswish",
            "hardsigmoid",
            "mish",
            "elu",
            "celu",
            "selu",
            "leaky_relu",
            "prelu",
            "softsign",
        ),
        *("erf", "atan", "log_sigmoid_forward", "sign", "round", "floor", "ceil", "clamp", "clamp_min", "clamp_max"),
        *("threshold", "hardshrink", "softshrink", "nan_to_num", "maximum", "minimum", "eq", "ne", "lt", "le", "gt"),
        *("ge", "logical_not", "logical_and", "logical_or", "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or"),
        *("bitwise_xor", "isnan", "isinf", "isfinite", "where", "masked_fill", "constant", "max_pool", "softmax"),
        *("amax", "amin", "max", "min", "argmax", "argmin", "all", "any", "var", "std", "var_mean", "std_mean", "prod"),
        *("logsumexp", "linalg_vector_norm", "layer_norm", "rms_norm", "group_norm", "batch_norm", "lerp"),
        "addcmul",
    }
)
"""Functions that are finite for all finite units: what a reader of weight zero makes of them is zero."""

_ALIVE_AT_ZERO = frozenset(
    {"gelu", "silu", "tanh", "selu", "softsign", "mish", "hardswish", "erf", "sin", "atan", "expm1"}
)
"""Functions with f(0) = 0 and f'(0) != 0, whatever their arguments are."""


def finite(function: str) -> bool:
    """Whether a function is finite for all finite values."""
    return function in _TOTAL


def alive_at_zero(function: str) -> bool:
    """Whether a function is zero at zero, and its derivative is not."""
    return function in _ALIVE_AT_ZERO


def unscaled_copies(axis_map: AxisMap) -> Refusal | None:
    """Admits copies without scale, and no new units."""
    if axis_map.has_new:
        return Refusal("a function lies on it that may be infinite for a new unit", "copies")
    return _unscaled(axis_map)


def unscaled_units(axis_map: AxisMap) -> Refusal | None:
    """Admits copies without scale, and new units that nothing reads."""
    if axis_map.has_new and axis_map.padded:
        return Refusal(
            "units padded with zeros would not stay zero on their way, or never leave it", "copies, new units"
        )
    return _unscaled(axis_map)


def pointwise(function: str) -> Constraint:
    """The constraint of a passage `pointwise:<function>`."""
    if function in _ALIVE_AT_ZERO:
        return _unscaled
    return unscaled_units if function in _TOTAL else unscaled_copies


def _unscaled(axis_map: AxisMap) -> Refusal | None:
    scaled = any(u != NEW and m != 1.0 for u, m in zip(axis_map.source, axis_map.expand, strict=True))
    if not scaled:
        return None
    return Refusal("a nonlinear function lies on it, which a scaled unit does not pass", "unscaled copies, new units")


CONSTRAINTS: dict[str, Constraint] = {
    # both factors carry the same map: a scale would be squared, and two zeros have no gradient
    "gate": unscaled_units,
    # a constant is added that parameters do not hold unit by unit: a new unit is that constant, and no scale passes it
    "shifted": unscaled_units,
    "residual": anything,
    # functions of one value, unit by unit, summed
    "terms": anything,
    # whether units that are averages come to every reader as zeros: see `growkit.constraints.table`
    "centred": anything,
    "uncentred": anything,
}
