"""Tensors as flat arrays that each hold one storage, and back: what shared memory shares it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from growkit.errors import CheckpointError

_PLAIN = {
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
}  # fmt: skip
"""Dtypes of every version of safetensors; others are stored as bytes."""
_RESERVED = "__metadata__"
"""A name that safetensors keeps for itself."""
_LONGEST_NAME = 200  # characters
_ALIGNMENT = 16  # bytes of the largest dtype: where a shared storage is cut, every dtype finds its entries


def check_tensor(tensor: torch.Tensor, path: str) -> None:
    """Whether the tensor's entries are all there is to it.

    Raises: CheckpointError, naming `path`.
    """
    kind, fault, advice = type(tensor), "", "save a plain tensor with the same entries, or leave it out"
    if kind not in (torch.Tensor, nn.Parameter):
        fault = f"a {kind.__module__}.{kind.__qualname__}"
    elif tensor.is_meta:
        fault, advice = "a tensor without data (device meta)", "materialise it before saving"
    elif tensor.layout != torch.strided:
        fault, advice = f"a tensor of layout {str(tensor.layout).removeprefix('torch.')}", "save tensor.to_dense()"
    elif tensor.is_quantized:
        fault, advice = f"a quantised tensor ({tensor.dtype})", "save tensor.int_repr() with its scales"
    elif tensor.is_conj() or tensor.is_neg():
        fault, advice = "a lazy conjugate or negative", "save tensor.resolve_conj().resolve_neg()"
    if fault:
        raise CheckpointError(f"{path}: {fault}", "dense tensors that hold their entries themselves", advice)


def pack(named: Sequence[tuple[str, torch.Tensor]]) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """How each tensor is made of a stored one, and the stored ones by name.

    A tensor whose memory no other one shares is stored as it is, in its shape; its strides are kept where its
    entries fill their memory, and else it is made contiguous. Tensors that share memory become views of one
    flat array that spans them all.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for index, (_, tensor) in enumerate(named):
        if tensor.numel():
            groups.setdefault((str(tensor.device), tensor.untyped_storage().data_ptr()), []).append(index)
    specs: list[dict[str, Any]] = [_shape_spec(tensor) for _, tensor in named]
    stored: dict[str, torch.Tensor] = {}
    for indices in groups.values():
        name, tensors = _unused(named[indices[0]][0], stored), [named[index][1].detach() for index in indices]
        if len({_place(tensor) for tensor in tensors}) == 1:
            stored[name], extra = _alone(tensors[0])
            placed = [extra] * len(indices)
        else:
            stored[name], placed = _together(tensors)
        for index, extra in zip(indices, placed, strict=True):
            specs[index] |= {"stored": name, **extra}
    return specs, stored


def unpack(specs: Sequence[Mapping[str, Any]], stored: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that `pack` was given; those that were one place in memory are one tensor.

    Raises: CheckpointError for a spec that does not fit what is stored.
    """
    made: dict[str, torch.Tensor] = {}
    result = []
    for spec in specs:
        key = repr(sorted(spec.items()))
        if key not in made or "stored" not in spec:
            made[key] = _made(spec, stored)
        result.append(made[key])
    return result


def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16` for `torch.bfloat16`."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: object) -> torch.dtype:
    """The inverse of `dtype_name`.

    Raises: CheckpointError.
    """
    dtype = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(dtype, torch.dtype):
        raise CheckpointError(f"the dtype {name!r}", "dtypes of this torch", "load it with the torch it was saved with")
    return dtype


def _shape_spec(tensor: torch.Tensor) -> dict[str, Any]:
    return {"dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape)}


def _unused(path: str, taken: Mapping[str, object]) -> str:
    name = path[:_LONGEST_NAME].encode(errors="replace").decode()
    candidate, count = name, 1
    while candidate in taken or candidate == _RESERVED:
        count += 1
        candidate = f"{name}#{count}"
    return candidate


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _alone(tensor: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
    # preserve_format, the default of empty_like, keeps the strides of exactly those tensors that fill their memory.
    fills = torch.empty_like(tensor, device="meta").stride() == tensor.stride()
    extra = {"stride": list(tensor.stride())} if fills and not tensor.is_contiguous() else {}
    values = tensor.contiguous()
    return (values if values.dtype in _PLAIN else values.reshape(-1).view(torch.uint8)), extra


def _together(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[dict[str, Any]]]:
    spans = [
        (tensor.storage_offset() * tensor.itemsize, (tensor.storage_offset() + _extent(tensor)) * tensor.itemsize)
        for tensor in tensors
    ]
    first, last = min(low for low, _ in spans) // _ALIGNMENT * _ALIGNMENT, max(high for _, high in spans)
    dtypes = {tensor.dtype for tensor in tensors}
    dtype = dtypes.pop() if len(dtypes) == 1 and dtypes <= _PLAIN else torch.uint8
    itemsize = torch.empty(0, dtype=dtype).itemsize
    flat = torch.empty(0, dtype=dtype, device=tensors[0].device).set_(
        tensors[0].untyped_storage(), first // itemsize, ((last - first) // itemsize,), (1,)
    )
    placed = [
        {"stride": list(tensor.stride()), "offset": (low - first) // tensor.itemsize}
        for tensor, (low, _) in zip(tensors, spans, strict=True)
    ]
    return flat, placed


def _extent(tensor: torch.Tensor) -> int:
    return _reach(tensor.shape, tensor.stride())


def _reach(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Entries from the first to the last one, both included."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def _made(spec: Mapping[str, Any], stored: Mapping[str, torch.Tensor]) -> torch.Tensor:
    dtype, shape = dtype_named(spec["dtype"]), _counts(spec["shape"])
    if "stored" not in spec:
        _check(0 in shape, spec)
        return torch.empty(shape, dtype=dtype)
    base = stored[spec["stored"]]
    if "offset" in spec:
        (offset,), stride = _counts([spec["offset"]]), _counts(spec["stride"])
        room = base.untyped_storage().nbytes() // torch.empty(0, dtype=dtype).itemsize
        _check(0 not in shape and offset + _reach(shape, stride) <= room, spec)
        return torch.empty(0, dtype=dtype, device=base.device).set_(base.untyped_storage(), offset, shape, stride)
    values = base if base.dtype == dtype else base.view(dtype)
    values = values.reshape(shape)
    if "stride" not in spec:
        return values
    stride = _counts(spec["stride"])
    _check(_reach(shape, stride) == values.numel(), spec)
    return torch.empty_strided(shape, stride, dtype=dtype, device=base.device).copy_(values)


def _counts(given: object) -> list[int]:
    _check(isinstance(given, list) and all(type(entry) is int and entry >= 0 for entry in given), given)
    return given  # type: ignore[return-value]


def _check(holds: bool, what: object) -> None:
    if not holds:
        raise CheckpointError(f"a tensor that does not fit what is stored: {what}", "what `save` wrote", "use another")
