"""Where ints become sizes: watches the calls of torch functions during the traced run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from growkit.axes.node import Dim, Irreconcilable
from growkit.discovery.taint import Origin, SizeInt, SizeOf, origin_of, tracked
from growkit.discovery.trace import Tracer


@dataclass(frozen=True)
class Use:
    """An int from `origin` was the size of `dim`."""

    origin: Origin
    dim: Dim
    where: str


@dataclass
class Uses:
    """All that was seen of ints."""

    sizes: list[Use] = field(default_factory=list)
    equal: list[tuple[list[Dim], str]] = field(default_factory=list)
    """Dims that a call makes equally large, such as the parts of a chunk."""
    numeric: list[tuple[Origin, str]] = field(default_factory=list)
    """Sizes that were used as numbers."""
    unexplained: list[tuple[Origin, str]] = field(default_factory=list)
    """Ints that were given to a function of which it is unknown what it does with them."""

    def origins(self) -> list[Origin]:
        """Where the ints came from that were used as sizes or numbers."""
        return [use.origin for use in self.sizes] + [origin for origin, _ in (*self.numeric, *self.unexplained)]


Pairs = Iterable[tuple[int, Dim]]
_Reader = Callable[["SizeWatch", Sequence[Any], dict[str, Any], Any], Pairs]
_SHAPING = (
    "view", "reshape", "expand", "broadcast_to", "zeros", "ones", "empty", "full", "rand", "randn", "new_zeros",
    "new_ones", "new_empty", "new_full",
)  # fmt: skip
_NUMERIC = {
    "mul", "div", "add", "sub", "pow", "truediv", "true_divide", "rsub", "rdiv", "rpow", "floordiv", "divide",
    "multiply", "fill", "clamp",
}  # fmt: skip


class SizeWatch(TorchFunctionMode):
    """Notes every int that is used as the size of a dimension; hands out tracked sizes."""

    def __init__(self, tracer: Tracer, kind: type[SizeInt]):
        super().__init__()
        self.tracer, self.kind, self.uses = tracer, kind, Uses()

    def as_float(self, origin: Origin) -> None:
        """Notes that a size is used as a floating-point number."""
        self.uses.numeric.append((origin, self.tracer.where("size as a number")))

    def dims(self, tensor: Tensor) -> list[Dim]:
        """The dims of a tensor of the run."""
        return self.tracer.dims(tensor)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        if name in ("__get__", "size") and isinstance(result, (torch.Size, int)) and not isinstance(result, bool):
            return self._tracked_size(name, args, kwargs, result)
        where = self.tracer.where(name)
        reader = _READERS.get(name)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, SizeInt)]
        if reader:
            for value, dim in reader(self, args, kwargs, result):
                if value >= 0:
                    self.uses.sizes.append(Use(origin_of(value), dim, where))
        elif name.strip("_").removeprefix("i") in _NUMERIC or name.strip("_") in _NUMERIC:
            self.uses.numeric += [(value.origin, where) for value in given]
        else:
            self.uses.unexplained += [(value.origin, where) for value in given]
        return result

    def _tracked_size(self, name: str, args: Any, kwargs: Any, result: Any) -> Any:
        tensor = args[0]
        if isinstance(result, torch.Size):
            dims = self.dims(tensor)
            return torch.Size([tracked(n, SizeOf(tuple(d)), self.kind) for n, d in zip(result, dims, strict=True)])
        if name == "size":
            d = args[1] if len(args) > 1 else kwargs["dim"]
            return tracked(result, SizeOf(tuple(self.dims(tensor)[d])), self.kind)
        return result


def _shape(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Iterator[tuple[int, Dim]]:
    given = [x for x in args if not isinstance(x, Tensor)]
    shape: Sequence[Any] = given or [kwargs.get("size", kwargs.get("shape", ()))]
    if shape and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    sizes = [x for x in shape if isinstance(x, int)]
    if len(sizes) == result.dim():
        yield from zip(sizes, watch.dims(result), strict=True)


def _unflatten(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    sizes = args[2] if len(args) > 2 else kwargs["sizes"]
    d = (args[1] if len(args) > 1 else kwargs["dim"]) % args[0].dim()
    return zip(sizes, watch.dims(result)[d : d + len(sizes)], strict=True)


def _split(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    named = kwargs.get("split_size_or_sections", kwargs.get("split_size", kwargs.get("split_sizes")))
    given: Any = args[1] if len(args) > 1 else named
    d = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    dims = [watch.dims(piece)[d] for piece in result]
    if isinstance(given, int):
        watch.uses.equal.append((dims, watch.tracer.where("split")))
        return [(given, dims[0])]
    return zip(given, dims, strict=True)


def _chunk(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    d = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    watch.uses.equal.append(([watch.dims(piece)[d] for piece in result], watch.tracer.where("chunk")))
    return ()


def _narrow(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    tensor, d, start, length = (*args, *kwargs.values())
    return [*_prefix(watch, watch.dims(tensor)[d], start), (length, watch.dims(result)[d])]


def _prefix(watch: SizeWatch, dim: Dim, stop: Any) -> Iterator[tuple[int, Dim]]:
    """The first `stop` units of an axis of a parameter."""
    size = watch.tracer.axes.join(dim).size if dim else 1
    if isinstance(stop, int) and 0 < stop < size and watch.tracer.axes.named(dim):
        try:
            yield stop, watch.tracer.axes.cut(dim, 0, int(stop))
        except Irreconcilable:  # the slice itself has locked the axis
            return


def _getitem(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Iterator[tuple[int, Dim]]:
    dims = watch.dims(args[0])
    items = args[1] if isinstance(args[1], tuple) else (args[1],)
    taken = sum(item is not None and item is not Ellipsis for item in items)
    d = 0
    for item in items:
        if item is Ellipsis:
            d += len(dims) - taken
        elif isinstance(item, slice):
            yield from _prefix(watch, dims[d], item.start)
            yield from _prefix(watch, dims[d], item.stop)
        d += item is not None and item is not Ellipsis


def _layer_norm(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
    return zip(shape, watch.dims(args[0])[-len(shape) :], strict=True)


def _channel_norm(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    """A norm without parameters keeps its number of channels, and may compare it with what comes."""
    module = watch.tracer.module
    kept = getattr(module, "num_features", getattr(module, "num_channels", None))
    held = any(True for _ in module.parameters()) if module is not None else True
    return [] if held or not isinstance(kept, SizeInt) else [(kept, watch.dims(args[0])[1])]


def _group_norm(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    count = args[1] if len(args) > 1 else kwargs["num_groups"]
    kept = list(_channel_norm(watch, args, kwargs, result))
    try:
        return [*kept, (count, watch.tracer.axes.split_dim(watch.dims(args[0])[1], int(count))[0])]
    except Irreconcilable:  # the norm itself has locked the axis
        return kept


def _convolution(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    x, weight = args[:2]
    groups = args[6] if len(args) > 6 else kwargs.get("groups", 1)
    if groups == 1:
        return ()
    try:
        return [(groups, watch.tracer.axes.split_dim(watch.dims(x)[x.dim() + 1 - weight.dim()], int(groups))[0])]
    except Irreconcilable:  # the convolution itself has locked the axis
        return ()


def _channel_shuffle(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    groups = args[1] if len(args) > 1 else kwargs["groups"]
    try:
        return [(groups, watch.tracer.axes.split_dim(watch.dims(args[0])[1], int(groups))[0])]
    except Irreconcilable:  # the shuffle itself has locked the axis
        return ()


def _arange(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    ends = [x for x in (*args, *kwargs.values()) if isinstance(x, int) and not isinstance(x, bool)]
    return [(end, watch.dims(result)[0]) for end in ends if end == result.numel()]


def _attention(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    scale = args[6] if len(args) > 6 else kwargs.get("scale")
    if scale is None:
        query = args[0] if args else kwargs["query"]
        where = watch.tracer.where("scaled_dot_product_attention")
        watch.uses.numeric.append((SizeOf(tuple(watch.dims(query)[-1])), where))
    return ()


def _multi_head_attention(watch: SizeWatch, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    """`nn.MultiheadAttention` splits heads inside this function, where no call is seen."""
    query, width, heads = args[0], args[3], args[4]
    out_weight = args[11]
    stream, inner = watch.dims(query)[-1], watch.dims(out_weight)[1]
    separate = [kwargs.get(name) for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight")]
    projected = [watch.dims(weight)[0] for weight in separate if weight is not None]
    watch.uses.equal.append(([stream, inner, *projected], watch.tracer.where("multi_head_attention")))
    split = watch.tracer.axes.split_dim(inner, int(heads))
    watch.uses.numeric.append((SizeOf(tuple(split[1])), watch.tracer.where("multi_head_attention")))
    return [(width, stream), (heads, split[0])]


_READERS: dict[str, _Reader] = {
    **dict.fromkeys(_SHAPING, _shape),
    "unflatten": _unflatten,
    "split": _split,
    "split_with_sizes": _split,
    "chunk": _chunk,
    "narrow": _narrow,
    "__getitem__": _getitem,
    "layer_norm": _layer_norm,
    "rms_norm": _layer_norm,
    "group_norm": _group_norm,
    **dict.fromkeys(("batch_norm", "instance_norm"), _channel_norm),
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _convolution
    ),
    **dict.fromkeys(("channel_shuffle", "native_channel_shuffle"), _channel_shuffle),
    "arange": _arange,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multi_head_attention,
}
