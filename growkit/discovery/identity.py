"""What makes a block return its input: the parameters that, at zero, make every other term of its sum zero.

A gain of `1 + weight` is zero where the weight is -1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from growkit.discovery.operations import Op, Value, shift_of

SAME = frozenset({"clone", "alias", "detach", "contiguous", "_to_copy"})
"""Ops whose result is their operand."""
_VIEWS = SAME | {
    "view", "_unsafe_view", "reshape", "_reshape_alias", "t", "transpose", "permute", "unsqueeze", "squeeze", "expand",
    "select", "slice", "narrow", "unfold", "flip", "roll", "index_select", "split", "split_with_sizes", "unbind",
}  # fmt: skip
"""Ops whose results hold entries of their operand and nothing else."""
_KEEP_ZERO = _VIEWS | {
    "neg", "abs", "sum", "mean", "cumsum", "relu", "leaky_relu", "_prelu_kernel", "gelu", "silu", "mish", "elu", "celu",
    "selu", "tanh", "sin", "hardswish", "square", "erf", "glu", "native_dropout", "dropout", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "max_pool2d_with_indices",
}  # fmt: skip
"""Ops that give zero for zero, whatever their other arguments are."""
_SPLITS = frozenset({"split", "split_with_sizes", "unbind"})
_PRODUCTS = {
    "mul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "mv": ("self", "vec"),
    "dot": ("self", "tensor"), "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec"),
    "convolution": ("input", "weight"), "embedding": ("weight",),
}  # fmt: skip
_BIASES = {"addmm": "self", "baddbmm": "self", "addmv": "self", "convolution": "bias"}
_NORMS = frozenset(
    {
        "native_layer_norm", "_fused_rms_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training", "cudnn_batch_norm",
    }
)  # fmt: skip
_POLES = frozenset({"div", "rsqrt", "reciprocal", "log", "log2", "log10", "pow", "logit"})
"""Ops that may give infinity for zero."""


class Obstacle(Exception):
    """A place in the model whose result stays, whatever parameters are zero; None: an input or a constant."""

    def __init__(self, where: str | None):
        super().__init__(where)
        self.where = where


class Identity:
    """One block: `start`, the number of its first op; `inputs`; `parameters`, its own, name by tensor.

    `shown`: dtype and shape of a tensor.
    """

    def __init__(
        self,
        ops: Sequence[Op],
        start: int,
        inputs: Collection[Value],
        parameters: Mapping[int, str],
        shown: Callable[[int], tuple[torch.dtype, torch.Size]],
    ):
        self.ops, self.start, self.inputs, self.parameters, self.shown = ops, start, inputs, parameters, shown
        self._zero: dict[Value, frozenset[str]] = {}
        self._stays: dict[Value, str | None] = {}
        """Values that stay, and where: not their errors, which would keep the whole run in a circle."""
        self._starts: dict[str, float] = {}

    def passed(self, result: Value) -> tuple[Value, frozenset[str]]:
        """The input that `result` equals when some parameters are zero, and these.

        Law: result = input + 0, with each term zero by parameters that scale all of it.
        Source of the zeros: Wu et al. 2024, LLaMA Pro (arXiv 2401.02415), section 3.2; of those of a norm that ends a
        branch: Goyal et al. 2017 (arXiv 1706.02677), section 5.1.

        Raises:
            Obstacle: the op that adds something else, or changes the input.
        """
        if result in self.inputs:
            return result, frozenset()
        op = self._op(result)
        terms: list[tuple[Any, Any]] = []
        if op.name in SAME:
            terms = [(op.arguments["self"], 0)]
        elif op.name in ("add", "sub"):
            first, second = op.arguments["self"], op.arguments["other"]
            terms = [(first, second)]
            if op.name == "add" and op.arguments.get("alpha", 1) == 1:
                terms.append((second, first))
        found: list[str | None] = []
        for stream, rest in terms:
            try:
                given, silenced = self.passed(stream) if isinstance(stream, Value) else _stop(op.where)
                if self._holds(given, result):
                    return given, silenced | self._zero_of(rest, op.where)
                found.append(op.where)
            except Obstacle as obstacle:
                # of two ways to read a sum, the one in which the input was found tells more
                reached = isinstance(stream, Value) and self.reaches(stream)
                found.insert(0 if reached else len(found), obstacle.where)
        raise Obstacle(found[0] if found else op.where)

    def reaches(self, result: Value) -> bool:
        """Whether an input is a term of `result`."""
        waiting, seen = [result], set()
        while waiting:
            value = waiting.pop()
            if value in self.inputs:
                return True
            if value in seen or value.number < self.start or value.tensor not in self.ops[value.number].results:
                continue
            seen.add(value)
            op = self.ops[value.number]
            terms = [op.arguments.get("self")] if op.name in SAME or op.name in ("add", "sub") else []
            if op.name == "add" and op.arguments.get("alpha", 1) == 1:
                terms.append(op.arguments["other"])
            waiting += [x for x in terms if isinstance(x, Value)]
        return False

    def _holds(self, given: Value, result: Value) -> bool:
        """Whether a tensor of the kind of `result` can hold the input as it is."""
        (dtype, shape), (now, shape_now) = self.shown(given.tensor), self.shown(result.tensor)
        return shape == shape_now and torch.promote_types(dtype, now) == now

    def _op(self, value: Value) -> Op:
        if value.number < self.start:
            raise Obstacle(None)
        op = self.ops[value.number]
        if value.tensor not in op.results:  # written through a view
            raise Obstacle(op.where)
        return op

    def _zero_of(self, value: Any, where: str) -> frozenset[str]:
        """The parameters that make a term zero; `where` is what meets it."""
        if not isinstance(value, Value):
            return frozenset() if value is None or value == 0 else _stop(where)
        if value not in self._zero and value not in self._stays:
            try:
                self._zero[value] = self._zeros(value)
            except Obstacle as obstacle:
                self._stays[value] = obstacle.where
        if value in self._stays:
            raise Obstacle(self._stays[value] or where)
        return self._zero[value]

    def _zeros(self, value: Value) -> frozenset[str]:
        if value.tensor in self.parameters:
            return self._start(value, 0.0)
        op = self._op(value)
        if (shifted := shift_of(op)) and self._is_parameter(shifted[0]):
            return self._start(shifted[0], -shifted[1])
        if op.results[0] != value.tensor and op.name not in _SPLITS:
            raise Obstacle(op.where)
        named = op.arguments

        def zero(*names: str) -> frozenset[str]:
            return frozenset().union(*(self._zero_of(named[name], op.where) for name in names))

        if op.name in _KEEP_ZERO:
            return zero("self" if "self" in named else "input")
        if op.name in ("add", "sub"):
            return zero("self", "other")
        if op.name in ("cat", "stack"):
            return frozenset().union(*(self._zero_of(x, op.where) for x in named["tensors"]))
        if op.name == "where":
            return zero("self", "other")
        if op.name in _NORMS and named["weight"] is not None:
            # silenced itself: a norm that is given zeros has gradients of 1 / sqrt(eps)
            return zero("weight", *(["bias"] if named.get("bias") is not None else []))
        if op.name.startswith("_scaled_dot_product"):
            return zero("value")
        if op.name in _PRODUCTS:
            bias = _BIASES.get(op.name)
            return self._product(op) | (zero(bias) if bias else frozenset())
        if op.name == "div" and named.get("rounding_mode") is None:
            return self._finite(zero("self"), named["other"], op)
        if _is_zero_by_number(op):
            return zero("self")
        if op.name in ("zeros", "zeros_like", "new_zeros") or (op.name == "scalar_tensor" and named["s"] == 0):
            return frozenset()
        raise Obstacle(op.where)

    def start_of(self, name: str) -> float:
        """The number at which a parameter makes zero what it makes zero."""
        return self._starts.get(name, 0.0)

    def _start(self, value: Value, number: float) -> frozenset[str]:
        while value.tensor not in self.parameters:
            value = self.ops[value.number].arguments["self"]
        name = self.parameters[value.tensor]
        if self._starts.setdefault(name, number) != number:  # used as it is, and with a number added
            raise Obstacle(name)
        return frozenset({name})

    def _product(self, op: Op) -> frozenset[str]:
        """One operand that becomes zero is enough; more would keep each other from learning."""
        operands = [op.arguments[name] for name in _PRODUCTS[op.name]]
        weights = [x for x in operands if self._is_parameter(x)]
        others = [x for x in operands if x not in weights]
        # a gain scales a branch that a layer writes; only of a norm written by hand, the gain itself is the last
        last = op.name != "mul" or (len(others) == 1 and self._is_normalised(others[0]))
        found_in_way: list[str | None] = []
        for operand in [*weights, *others] if last else [*others, *weights]:
            try:
                found = self._zero_of(operand, op.where)
                for other in operands:
                    if other is not operand:
                        self._finite(found, other, op)
                return found
            except Obstacle as obstacle:
                found_in_way.append(obstacle.where)
        raise Obstacle(found_in_way[0])

    def _finite(self, silenced: frozenset[str], value: Any, op: Op) -> frozenset[str]:
        """Passes if a factor stays finite when these parameters are zero."""
        if isinstance(value, Value):
            before = list(self._before(value))
            depends = any(self.parameters.get(x.tensor) in silenced for x in before)
            poles = op.name == "div" or any(self.ops[x.number].name in _POLES for x in before if x.number >= self.start)
            if depends and poles:
                raise Obstacle(op.where)
        elif op.name == "div" and not value:
            raise Obstacle(op.where)
        return silenced

    def _is_parameter(self, value: Any) -> bool:
        while isinstance(value, Value) and value.tensor not in self.parameters:
            if value.number < self.start or self.ops[value.number].name not in _VIEWS:
                return False
            value = self.ops[value.number].arguments["self"]
        return isinstance(value, Value)

    def _is_normalised(self, value: Any) -> bool:
        """Whether a value is something times, or over, what is computed from it."""
        while isinstance(value, Value) and value.number >= self.start:
            op = self.ops[value.number]
            if op.name in ("mul", "div"):
                parts = [x for x in (op.arguments["self"], op.arguments["other"]) if isinstance(x, Value)]
                return len(parts) == 2 and any(
                    self._source(one) in self._before(other) for one, other in (parts, parts[::-1])
                )
            if op.name not in SAME:
                return False
            value = op.arguments["self"]
        return False

    def _source(self, value: Value) -> Value:
        """What a value was before copies of it, and before a mean was taken off."""
        while value.number >= self.start and self.ops[value.number].name in SAME | {"sub"}:
            value = self.ops[value.number].arguments["self"]
        return value

    def _before(self, value: Value) -> set[Value]:
        """The value, and all in the block that it was computed from."""
        waiting, seen = [value], set()
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                if one.number >= self.start:
                    waiting += self.ops[one.number].values()
        return seen


def _stop(where: str) -> Any:
    raise Obstacle(where)


def _is_zero_by_number(op: Op) -> bool:
    """Ops that keep zero for some values of a number."""
    named = op.arguments
    match op.name:
        case "masked_fill":
            return not isinstance(named["value"], Value) and named["value"] == 0
        case "pow":
            return isinstance(named.get("exponent"), int | float) and named["exponent"] > 0
        case "clamp" | "hardtanh":
            low, high = (named.get(name) for name in (("min", "max") if op.name == "clamp" else ("min_val", "max_val")))
            if isinstance(low, Value) or isinstance(high, Value):
                return False
            return (low is None or low <= 0) and (high is None or high >= 0)
        case "constant_pad_nd":
            return named["value"] == 0
    return False
