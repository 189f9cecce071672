"""Nested states as JSON values beside a list of tensors, and back."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from growkit.checkpoint.storage import check_tensor, dtype_name, dtype_named
from growkit.errors import CheckpointError

TAG = "$"
"""The key that marks a JSON object as something else than a dict."""
DEEPEST = 64
"""Levels of nesting that a state may have."""
_LONGEST_INT = 4096  # bits; Python reads no int of more than 4300 digits
_ALLOWED = "dicts with keys of type str or int, lists, tuples, None, bool, int, float, str, bytes, tensors, arrays"

Leaves = list[tuple[str, torch.Tensor]]


def encode(state: object) -> tuple[Any, Leaves]:
    """The state as a JSON value that refers to tensors by index, and these with their paths inside the state.

    Types are kept exactly: a tuple comes back as a tuple, an OrderedDict with its `_metadata`. Not kept: that a list or
    dict stands at two places; `requires_grad`, and that a tensor is a Parameter.

    Raises: CheckpointError for what cannot be kept, naming its path.
    """
    leaves: Leaves = []
    return _encoded(state, "", leaves, DEEPEST), leaves


def decode(value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The state that `encode` was given.

    Raises: CheckpointError, or another exception, for a value that `encode` does not return.
    """
    if isinstance(value, list):
        return [decode(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: decode(entry, tensors) for key, entry in value.items()}
    kind = value[TAG]
    if kind == "tensor":
        return tensors[value["index"]]
    if kind == "array":
        array = tensors[value["index"]].numpy()
        return array[()] if value["scalar"] else array
    if kind == "float":
        return float(value["value"])
    if kind == "bytes":
        return bytes.fromhex(value["value"])
    if kind == "tuple":
        return tuple(decode(entry, tensors) for entry in value["items"])
    if kind == "size":
        return torch.Size(value["items"])
    if kind == "dtype":
        return dtype_named(value["value"])
    if kind == "device":
        return torch.device(value["value"])
    if kind == "dict":
        return {key: decode(entry, tensors) for key, entry in value["items"]}
    if kind == "ordered":
        ordered = OrderedDict((key, decode(entry, tensors)) for key, entry in value["items"])
        if "metadata" in value:
            ordered._metadata = decode(value["metadata"], tensors)  # type: ignore[attr-defined]
        return ordered
    raise CheckpointError(f"a value of kind {kind!r}", "kinds that this version of growkit writes", "update growkit")


def _encoded(value: object, path: str, leaves: Leaves, room: int) -> Any:
    if room == 0:
        raise CheckpointError(
            f"{_shown(path)}: nested more than {DEEPEST} levels deep, or a container that holds itself",
            "a state without cycles",
            "save a flatter one",
        )
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return _encoded_int(value, path)  # type: ignore[arg-type]
    if kind is float:
        return value if math.isfinite(value) else {TAG: "float", "value": repr(value)}  # type: ignore[arg-type]
    if kind is list:
        return _items(value, path, leaves, room)  # type: ignore[arg-type]
    if kind is tuple:
        return {TAG: "tuple", "items": _items(value, path, leaves, room)}  # type: ignore[arg-type]
    if kind in (dict, OrderedDict):
        return _encoded_dict(value, path, leaves, room)  # type: ignore[arg-type]
    if isinstance(value, torch.Tensor):
        check_tensor(value, _shown(path))
        return {TAG: "tensor", "index": _added(leaves, path, value)}
    if kind is bytes:
        return {TAG: "bytes", "value": value.hex()}  # type: ignore[attr-defined]
    if kind is torch.Size:
        return {TAG: "size", "items": list(value)}  # type: ignore[call-overload]
    if kind is torch.dtype:
        return {TAG: "dtype", "value": dtype_name(value)}  # type: ignore[arg-type]
    if kind is torch.device:
        return {TAG: "device", "value": str(value)}
    if kind.__module__ == "numpy" and hasattr(value, "dtype"):
        return _encoded_array(value, path, leaves)
    raise _refusal(value, path)


def _items(values: Sequence[object], path: str, leaves: Leaves, room: int) -> list[Any]:
    return [_encoded(entry, f"{path}[{index}]", leaves, room - 1) for index, entry in enumerate(values)]


def _encoded_int(value: int, path: str) -> int:
    if value.bit_length() > _LONGEST_INT:
        raise CheckpointError(f"{_shown(path)}: an int of {value.bit_length()} bits", "4096 bits", "save it as bytes")
    return value


def _encoded_dict(value: Mapping[Any, object], path: str, leaves: Leaves, room: int) -> Any:
    for key in value:
        if type(key) not in (str, int):
            raise CheckpointError(
                f"{_shown(path)}: the key {key!r} ({type(key).__name__})",
                "keys of type str or int",
                "use other keys, or save a list of pairs",
            )
        if type(key) is int:
            _encoded_int(key, path)
    entries = {
        key: _encoded(entry, f"{path}.{key}" if path else str(key), leaves, room - 1) for key, entry in value.items()
    }
    if type(value) is OrderedDict:
        ordered = {TAG: "ordered", "items": [[key, entry] for key, entry in entries.items()]}
        if hasattr(value, "_metadata"):
            ordered["metadata"] = _encoded(value._metadata, f"{path}._metadata", leaves, room - 1)
        return ordered
    if all(type(key) is str for key in entries) and TAG not in entries:
        return entries
    return {TAG: "dict", "items": [[key, entry] for key, entry in entries.items()]}


def _encoded_array(value: Any, path: str, leaves: Leaves) -> Any:
    scalar = type(value).__name__ != "ndarray"
    try:
        tensor = torch.tensor(value if scalar else value.copy())
        if tensor.numpy().dtype != value.dtype:
            raise TypeError(f"an array of dtype {value.dtype}")
    except (TypeError, ValueError) as error:
        raise _refusal(value, path) from error
    return {TAG: "array", "index": _added(leaves, path, tensor), "scalar": scalar}


def _added(leaves: Leaves, path: str, tensor: torch.Tensor) -> int:
    leaves.append((path or "state", tensor))
    return len(leaves) - 1


def _refusal(value: object, path: str) -> CheckpointError:
    kind = type(value)
    what = f"a {kind.__qualname__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__qualname__}"
    return CheckpointError(f"{_shown(path)}: {what}", _ALLOWED, "save what it is made of, as one of these")


def _shown(path: str) -> str:
    return path or "the state"
