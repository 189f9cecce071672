"""Where ints become sizes: watches the calls of torch functions during the traced run."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from functools import reduce
from itertools import islice
from math import prod
from operator import mul
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from growkit.axes.axis import Lock
from growkit.axes.node import Dim
from growkit.discovery.attention_readers import temperature
from growkit.discovery.call import DECLARE, flat
from growkit.discovery.given_numbers import Expected
from growkit.discovery.readers import READERS, bound
from growkit.discovery.size_floats import Powers, SizeFloat
from growkit.discovery.size_floats import plain as plain_float
from growkit.discovery.source_line import source_line
from growkit.discovery.taint import Comparison, Literal, Origin, SizeInt, SizeOf, as_int, origin_of, plain, tracked
from growkit.discovery.time_steps import LAYERS, two_steps
from growkit.discovery.trace import Tracer
from growkit.discovery.uses import Run, Use, Uses

_NUMERIC = {
    "mul", "div", "add", "sub", "pow", "truediv", "true_divide", "rsub", "rdiv", "rpow", "floordiv", "divide",
    "multiply", "fill", "clamp", "tensor", "as_tensor", "scalar_tensor", "full_like", "where", "masked_fill", "lt",
    "le", "gt", "ge", "eq", "ne", "remainder", "fmod",
}  # fmt: skip
_FACTORS = {
    "mul",
    "rmul",
    "imul",
    "multiply",
    "div",
    "truediv",
    "rtruediv",
    "itruediv",
    "true_divide",
    "rdiv",
    "divide",
}
"""Functions that multiply or divide by the numbers that they are given."""
_NOTHING = nullcontext()
_VALUES_READ = {"tolist", "numpy", "__array__"}
_CUT_INSIDE = {
    "glu", "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "multi_head_attention_forward",
    "scaled_dot_product_attention",
}  # fmt: skip
"""Functions that cut axes by their own sizes, not by numbers."""


class SizeWatch(TorchFunctionMode):
    """Notes every int that is used as the size of a dimension; hands out tracked sizes."""

    def __init__(self, tracer: Tracer, kind: type[SizeInt]):
        super().__init__()
        self.tracer, self.kind, self.uses = tracer, kind, Uses()
        self._inside = False
        """Whether a torch function runs: what it does with sizes is said by its reader."""

    def as_number(self, origin: Origin) -> None:
        """Notes that a size is used as a number."""
        if not self._inside:
            self.uses.numeric.append((origin, self.tracer.where("size as a number")))

    def compared(self, comparison: Comparison) -> None:
        """Notes that a size is compared with another number."""
        if not self._inside:
            self.uses.compared.append((comparison, self.tracer.where("size compared")))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.tracer.cuts:
            self.lock_cuts("slice")
        name = getattr(func, "__name__", None) or str(func)
        plain_name = name.strip("_")
        given = args if name == "__get__" else flat((*args, *kwargs.values()))
        numbers = [x for x in given if isinstance(x, (int, float))]
        factors = self._factors(plain_name, numbers, args, kwargs)
        unseen: list[Powers] = []
        slices = len(self.tracer.slices)
        self._inside = True
        try:
            with (
                self.tracer.numbers.expecting(factors, unseen) if factors else _NOTHING,
                self.tracer.floats.given(numbers),
            ):
                recurrent = func in LAYERS and len(args) == 9
                result = two_steps(self.tracer, func, args) if recurrent else func(*args, **kwargs)
        finally:
            self._inside = False
        if name in _SIZES and not isinstance(result, Tensor):  # to ask for a shape or dtype is not to read a tensor
            return self._tracked_size(name, args, kwargs, result)
        self.tracer.used.update(id(x) for x in given if isinstance(x, Tensor))
        floats = [x for x in numbers if isinstance(x, SizeFloat)]
        if plain_name in _FACTORS or (floats and len(unseen) == len(factors)):
            self._lost(unseen)
        where = self.tracer.where(name)
        reader = READERS.get(name)
        sizes = [x for x in numbers if isinstance(x, SizeInt)]
        if reader:
            if not args and "input" in kwargs:  # torch's name for what it takes first; readers count from it
                args, kwargs = (kwargs["input"],), {name: x for name, x in kwargs.items() if name != "input"}
            for value, dim in reader(Run(self.tracer, self.uses), args, kwargs, result):
                self._used(as_int(value), dim, where)
            if self.uses.blank:
                self._blank_slices(slices)
        elif plain_name in _FACTORS:
            pass
        elif plain_name.removeprefix("i") in _NUMERIC or plain_name in _NUMERIC:
            self.uses.numeric += [(value.origin, where) for value in sizes]
        else:
            self.uses.unexplained += [(value.origin, where) for value in sizes]
        if floats and plain_name not in _FACTORS and not factors:
            self._lost(x.powers for x in floats)
        if reader or name in _CUT_INSIDE:
            self.tracer.cuts.clear()
        if self.tracer.cuts:
            self.lock_cuts(name)
        if name in _VALUES_READ and isinstance(args[0], Tensor):
            self.tracer.warn_of_values(args[0], where)
            for dim in self.tracer.dims(args[0]):
                self.tracer.axes.lock(dim, Lock("its values leave torch here", where, DECLARE), declarable=True)
        return result

    def _factors(self, name: str, numbers: list[Any], args: Any, kwargs: Any) -> list[Expected]:
        """The numbers made of sizes by which a function may multiply or divide, and what they are made of."""
        if name in _FACTORS:
            return [
                *((plain_float(x), x.powers) for x in numbers if isinstance(x, SizeFloat)),
                *((float(plain(x)), ((x.origin, 1.0),)) for x in numbers if isinstance(x, SizeInt)),
            ]
        if name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
            given = args[6] if len(args) > 6 else kwargs.get("scale")
            found: list[Expected] = [(given, given.powers)] if isinstance(given, SizeFloat) else []
            found += [
                (float(size) ** -0.5, ((None if dim is None else SizeOf(tuple(dim)), -0.5),))
                for size, dim in temperature(Run(self.tracer, self.uses), name, args, kwargs)
            ]
            # some kernels scale queries and keys by the root of it
            return [(f**p, tuple((o, q * p) for o, q in powers)) for f, powers in found for p in (1.0, 0.5)]
        return []

    def _lost(self, found: Iterable[Powers]) -> None:
        where = self.tracer.where("size as a number")
        self.uses.numeric += [(origin, where) for powers in found for origin, _ in powers]

    def _used(self, value: int, dim: Dim, where: str) -> None:
        size = plain(value)
        if size >= 0:
            fits = size == prod(node.size for node in dim)
            origin = origin_of(value) if fits else Literal(size)
            self.uses.sizes.append(
                Use(origin, dim, f"{where}, {source_line()}" if isinstance(origin, Literal) else where)
            )

    def _blank_slices(self, before: int) -> None:
        """Remembers by which bounds the present call took slices, of dims that no parameter holds."""
        for serial, (whole, *ends) in islice(self.tracer.slices.items(), before, None):
            size = prod(node.size for node in whole)
            at = {
                (plain(place) + size) % size: (dim, place, where)
                for dim, place, where in self.uses.blank
                if dim == whole
            }
            if all(end in at or end in (0, size) for end in ends):
                self.uses.bounds[serial] = [at[end] for end in ends if end in at]
        self.uses.blank.clear()

    def lock_cuts(self, name: str) -> None:
        """Locks what was cut out of axes by numbers that were not seen."""
        for dim, serial in self.tracer.cuts:
            if serial in self.uses.bounds:  # a slice that was taken before anything was written there
                for whole, place, where in self.uses.bounds[serial]:
                    for value, piece in bound(Run(self.tracer, self.uses), whole, place):
                        self._used(value, piece, where)
            else:
                where = f"{self.tracer.where(name)}, {source_line()}"
                self.uses.sizes.append(Use(Literal(prod(node.size for node in dim)), dim, where))
        self.tracer.cuts.clear()

    def _tracked_size(self, name: str, args: Any, kwargs: Any, result: Any) -> Any:
        if isinstance(result, bool) or not isinstance(result, (tuple, int)):
            return result
        tensor = args[0]
        dims = self.tracer.dims(tensor)
        match name:
            case "size" | "__get__" if isinstance(result, torch.Size):
                return torch.Size([self._size(dim) for dim in dims])
            case "size":
                return self._size(dims[args[1] if len(args) > 1 else kwargs["dim"]])
            case "numel" | "nelement":
                return self._size_of_all(dims)
            case "stride" if isinstance(result, tuple):
                return tuple(self._stride(tensor, d) for d in range(tensor.dim()))
            case "stride":
                return self._stride(tensor, args[1] if len(args) > 1 else kwargs["dim"])
            case "__len__":  # Python makes a plain int of the result
                self.as_number(SizeOf(tuple(dims[0])))
        return result

    def _size(self, dim: Dim) -> SizeInt:
        return tracked(prod(node.size for node in dim), SizeOf(tuple(dim)), self.kind)

    def _size_of_all(self, dims: Iterable[Dim]) -> int:
        return reduce(mul, map(self._size, dims), 1)

    def _stride(self, tensor: Tensor, d: int) -> int:
        """The stride of a dim: the size of all dims with smaller ones, where they lie without gaps."""
        stride = tensor.stride(d)
        dims = self.tracer.dims(tensor)
        inner = self._size_of_all(dims[e] for e in range(tensor.dim()) if tensor.stride(e) < stride)
        return inner if plain(inner) == stride else stride


_SIZES = {"__get__", "size", "numel", "nelement", "stride", "__len__"}
