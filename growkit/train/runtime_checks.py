"""Arguments of a Runtime that are refused at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from growkit.errors import EngineError
from growkit.train.arguments import check_kind

_FUNCTION = (Callable, "a function of the model", "write lambda model: ...")
_KINDS: dict[str, tuple[Any, str, str]] = {
    "wrap": _FUNCTION,
    "unwrap": _FUNCTION,
    "shard": _FUNCTION,
    "schedulers": ((Sequence, Mapping), "a list, or a dict of lists", "write schedulers=[...]"),
    "followers": (Sequence, "a list of modules and mappings of tensors", "write followers=[...]"),
}


def check_runtime(**given: object) -> None:
    """Refuses arguments of another type than theirs, and shards beside what they exclude.

    Raises: EngineError.
    """
    for name, value in given.items():
        check_kind(name, value, *_KINDS[name])
    if given["shard"] is not None and (given["wrap"] or given["unwrap"] or given["followers"]):
        raise EngineError(
            "shard beside wrap, unwrap or followers",
            "shard alone: followers need a model that is whole on every rank",
            "wrap inside of the function shard, or use wrap=DistributedDataParallel",
        )


def device_of(given: str | torch.device | None) -> torch.device | None:
    """The device of this name.

    Raises: EngineError.
    """
    try:
        return None if given is None else torch.device(given)
    except (RuntimeError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise EngineError(f"device={given!r}: {reason}", "a device of torch, or None", 'write device="cuda"') from error
