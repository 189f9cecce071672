"""Running a model without leaving a trace in it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from growkit.errors import InputsError

_WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule"}


def unwrap(model: nn.Module) -> nn.Module:
    """The raw model of a compiled one.

    Raises:
        InputsError: the model is wrapped for several devices.
    """
    model = getattr(model, "_orig_mod", model)
    for path, module in model.named_modules():
        for base in type(module).__mro__:
            if base.__name__ in _WRAPPERS:
                raise InputsError(
                    f"{path or 'the model'} is wrapped by {base.__name__}",
                    "the raw model: its parameters are whole and its axes can be traced",
                    "discover and grow before wrapping, or pass model.module and wrap again afterwards",
                )
    return model


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Eval mode inside, without fast paths; then flags, attributes, buffers and random states are as before."""
    modules = list(model.modules())
    attributes = [(module, dict(vars(module))) for module in modules]
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (table, dict(table)) for module in modules for table in (module._parameters, module._buffers, module._modules)
    ]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = sorted({tensor.device.index or 0 for tensor in model.parameters() if tensor.is_cuda})
    python_state = random.getstate()
    # In eval mode torch runs whole encoder layers as one kernel, which hides what they do, and gives zeros where
    # inputs are padded, but not under every mode: outputs of two runs could not be compared.
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.random.fork_rng(devices):
            model.eval()
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        random.setstate(python_state)
        for module, before in attributes:
            vars(module).clear()
            vars(module).update(before)
        for table, entries in tables:
            table.clear()
            table.update(entries)
        with torch.no_grad():
            for buffer, value in buffers:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)
