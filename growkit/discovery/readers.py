"""Which dims a call of a torch function gives the ints that it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.node import Dim, Irreconcilable
from growkit.discovery.attention_readers import attention, multi_head_attention
from growkit.discovery.call import Nature
from growkit.discovery.taint import SizeInt, as_int, plain
from growkit.discovery.uses import Pairs, Reader, Run

_SHAPING = (
    "view", "reshape", "expand", "broadcast_to", "zeros", "ones", "empty", "rand", "randn", "new_zeros",
    "new_ones", "new_empty",
)  # fmt: skip


def _shape(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Iterator[tuple[int, Dim]]:
    given = args[1:] if args and isinstance(args[0], Tensor) else args
    shape: Sequence[Any] = given or [kwargs.get("size", kwargs.get("shape", ()))]
    if shape and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    if len(shape) == result.dim() and not any(isinstance(x, torch.dtype) for x in shape):
        yield from zip(map(as_int, shape), run.dims(result), strict=True)


def _as_strided(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Iterator[tuple[int, Dim]]:
    given = dict(zip(("input", "size", "stride"), args, strict=False)) | kwargs
    yield from zip(map(as_int, given["size"]), run.dims(result), strict=True)
    if any(not isinstance(stride, SizeInt) and stride > 1 for stride in given["stride"]):
        yield from zip(given["input"].shape, run.dims(given["input"]), strict=True)  # by numbers from nowhere


def _full(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    value = kwargs.get("fill_value", args[-1] if args else None)
    if isinstance(value, SizeInt):
        run.uses.numeric.append((value.origin, run.tracer.where("full")))
    return _shape(run, args, kwargs, result)


def _unflatten(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    sizes = args[2] if len(args) > 2 else kwargs["sizes"]
    d = (args[1] if len(args) > 1 else kwargs["dim"]) % args[0].dim()
    return zip(sizes, run.dims(result)[d : d + len(sizes)], strict=True)


def _split(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    named = kwargs.get("split_size_or_sections", kwargs.get("split_size", kwargs.get("split_sizes")))
    given: Any = args[1] if len(args) > 1 else named
    d = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    dims = [run.dims(piece)[d] for piece in result]
    if isinstance(given, (tuple, list)):
        return zip(map(as_int, given), dims, strict=True)
    run.uses.equal.append((dims, run.tracer.where("split")))
    return [(as_int(given), dims[0])]


def _chunk(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    d = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    run.uses.equal.append(([run.dims(piece)[d] for piece in result], run.tracer.where("chunk")))
    return ()


def _tensor_split(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any, d: int | None = None) -> Pairs:
    named = [x for name, x in kwargs.items() if name in ("sections", "indices", "indices_or_sections")]
    given: Any = args[1] if len(args) > 1 else named[0]
    if d is None:
        d = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    if isinstance(given, (tuple, list)):
        return [pair for place in given for pair in bound(run, run.dims(args[0])[d], place)]
    dims = [run.dims(piece)[d] for piece in result]
    if len({piece.shape[d] for piece in result}) > 1:
        return [(piece.shape[d], dim) for piece, dim in zip(result, dims, strict=True)]
    run.uses.equal.append((dims, run.tracer.where("tensor_split")))
    return ()


def _split_along(d: int) -> Reader:
    """The reader of `vsplit`, `hsplit` or `dsplit`; `hsplit` splits the only dim if there is one."""

    def read(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
        return _tensor_split(run, args, kwargs, result, min(d, args[0].dim() - 1))

    return read


def _narrow(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    given = dict(zip(("input", "dim", "start", "length"), args, strict=False)) | kwargs
    d = given["dim"]
    return [*bound(run, run.dims(given["input"])[d], given["start"]), (given["length"], run.dims(result)[d])]


def bound(run: Run, dim: Dim, given: Any) -> Iterator[tuple[int, Dim]]:
    """The units of an axis of a parameter before a place, or, counted from the end, behind it."""
    axes = run.tracer.axes
    if given is None:
        return
    place, size = as_int(given), prod(node.size for node in dim)
    if not axes.named(dim):
        run.uses.blank.append((dim, place, run.tracer.where("slice")))
        return
    at = plain(place)
    try:
        if at > 0:
            yield place, dim if at >= size else axes.cut(dim, 0, at)
        elif at < 0:
            yield -place, dim if -at >= size else axes.cut(dim, size + at, size)
    except Irreconcilable:  # the slice itself has locked the axis
        return


def _items(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Iterator[tuple[int, Dim]]:
    """The bounds of the slices of `tensor[items]`, read or written."""
    dims = run.dims(args[0])
    items = args[1] if isinstance(args[1], tuple) else (args[1],)
    taken = [_dims_taken(item) for item in items]
    d = 0
    for item, count in zip(items, taken, strict=True):
        if item is Ellipsis:
            d += len(dims) - sum(taken)
        elif isinstance(item, slice):
            yield from bound(run, dims[d], item.start)
            yield from bound(run, dims[d], item.stop)
        else:
            for number in _one_place(run, item):  # one unit, as a slice takes it
                yield from bound(run, dims[d], number)
                yield from bound(run, dims[d], None if plain(number) == -1 else number + 1)
        d += count


def _one_place(run: Run, item: Any) -> list[int]:
    """The number in a list of one, or in a tensor of one that does not depend on the inputs."""
    if isinstance(item, Tensor):
        fixed = item.shape == (1,) and item.dtype is torch.int64 and run.tracer.known(item).nature is Nature.CONSTANT
        return item.tolist() if fixed else []
    number = item[0] if isinstance(item, list) and len(item) == 1 else None
    return [as_int(number)] if isinstance(number, int) and not isinstance(number, bool) else []


def _dims_taken(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.dim() if isinstance(item, Tensor) and item.dtype in (torch.bool, torch.uint8) else 1


def _layer_norm(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
    return zip(shape, run.dims(args[0])[-len(shape) :], strict=True)


def _channel_norm(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    """A norm without parameters keeps its number of channels, and may compare it with what comes."""
    module = run.tracer.module
    kept = getattr(module, "num_features", getattr(module, "num_channels", None))
    held = any(True for _ in module.parameters()) if module is not None else True
    return [] if held or not isinstance(kept, SizeInt) else [(kept, run.dims(args[0])[1])]


def _group_norm(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    count = args[1] if len(args) > 1 else kwargs["num_groups"]
    kept = list(_channel_norm(run, args, kwargs, result))
    try:
        return [*kept, (count, run.tracer.axes.split_dim(run.dims(args[0])[1], plain(as_int(count)))[0])]
    except Irreconcilable:  # the norm itself has locked the axis
        return kept


def _convolution(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    x, weight = args[0], args[1] if len(args) > 1 else kwargs["weight"]
    groups = args[6] if len(args) > 6 else kwargs.get("groups", 1)
    if plain(groups) == 1:
        return ()
    try:
        return [(groups, run.tracer.axes.split_dim(run.dims(x)[x.dim() + 1 - weight.dim()], plain(groups))[0])]
    except Irreconcilable:  # the convolution itself has locked the axis
        return ()


def _channel_shuffle(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    groups = args[1] if len(args) > 1 else kwargs["groups"]
    try:
        return [(groups, run.tracer.axes.split_dim(run.dims(args[0])[1], plain(groups))[0])]
    except Irreconcilable:  # the shuffle itself has locked the axis
        return ()


def _repeat_interleave(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    given = dict(zip(("input", "repeats", "dim"), args, strict=False)) | kwargs
    tensor, repeats, d = given.get("input"), given.get("repeats"), given.get("dim")
    if not isinstance(tensor, Tensor) or not isinstance(repeats, int):
        return ()
    outer = tensor.numel() if d is None else tensor.shape[d]
    return [(repeats, run.tracer.axes.split_dim(run.dims(result)[d or 0], outer)[1])]


def _repeat(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Iterator[tuple[int, Dim]]:
    given = args[1:] or [kwargs.get("repeats", kwargs.get("dims", ()))]
    times = list(given[0]) if isinstance(given[0], (tuple, list)) else list(given)
    times = [1] * (result.dim() - len(times)) + times
    for count, dim in zip(times, run.dims(result), strict=True):
        if plain(as_int(count)) > 1:
            yield count, run.tracer.axes.split_dim(dim, plain(as_int(count)))[0]


def _lstm(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    """Torch takes a projection for one only where it has fewer units than the state."""
    module = run.tracer.module
    if isinstance(module, nn.LSTM) and module.proj_size:
        most = plain(module.hidden_size) - 1
        run.tracer.axes.note(
            run.dims(module.get_parameter("weight_hr_l0"))[0], f"at_most:{most}", run.tracer.where("lstm")
        )
    return ()


def _pad(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Iterator[tuple[int, Dim]]:
    """No unit is put to an axis by numbers that stay zero: what the axes do by others, is not known."""
    for amount in args[1] if len(args) > 1 else kwargs["pad"]:
        if isinstance(amount, SizeInt) and plain(amount) == 0:
            yield amount, [run.tracer.axes.node(0)]
        elif isinstance(amount, SizeInt):
            run.uses.unexplained.append((amount.origin, run.tracer.where("pad")))


def _arange(run: Run, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Pairs:
    ends = [x for x in (*args, *kwargs.values()) if isinstance(x, int) and not isinstance(x, bool)]
    return [(end, run.dims(result)[0]) for end in ends if plain(end) == result.numel()]


READERS: dict[str, Reader] = {
    **dict.fromkeys(_SHAPING, _shape),
    **dict.fromkeys(("full", "new_full"), _full),
    "as_strided": _as_strided,
    "unflatten": _unflatten,
    **dict.fromkeys(("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes"), _split),
    **dict.fromkeys(("chunk", "unsafe_chunk"), _chunk),
    "tensor_split": _tensor_split,
    "vsplit": _split_along(0),
    "hsplit": _split_along(1),
    "dsplit": _split_along(2),
    **dict.fromkeys(("narrow", "narrow_copy"), _narrow),
    **dict.fromkeys(("__getitem__", "__setitem__"), _items),
    "layer_norm": _layer_norm,
    "rms_norm": _layer_norm,
    "group_norm": _group_norm,
    **dict.fromkeys(("batch_norm", "instance_norm"), _channel_norm),
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _convolution
    ),
    **dict.fromkeys(("channel_shuffle", "native_channel_shuffle"), _channel_shuffle),
    "repeat_interleave": _repeat_interleave,
    **dict.fromkeys(("repeat", "tile"), _repeat),
    "arange": _arange,
    "lstm": _lstm,
    "pad": _pad,
    "scaled_dot_product_attention": attention,
    "multi_head_attention_forward": multi_head_attention,
}
