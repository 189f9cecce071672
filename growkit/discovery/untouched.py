"""Running a model without leaving a trace in it."""

from __future__ import annotations

import operator
import random
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from growkit.discovery.call import bind, writes, written
from growkit.errors import InputsError
from growkit.nn.places import holders_of, slots_of

_TABLES = tuple(name for name, value in vars(nn.Module()).items() if isinstance(value, dict))
_FEW_BYTES = 2**24
"""So many bytes of parameters are copied in less time than all ops of a run are watched."""
_WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule"}


def unwrap(model: nn.Module) -> nn.Module:
    """The raw model of a compiled one.

    Raises:
        InputsError: not a module, or one that is wrapped for several devices.
    """
    if not isinstance(model, nn.Module):
        raise InputsError(
            f"a model of type {type(model).__name__}",
            "a torch.nn.Module",
            "pass the module itself, not its class, its parameters or its state",
        )
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
def untouched(
    model: nn.Module, watched: bool = True, holders: Iterable[tuple[str, Any]] | None = None
) -> Iterator[Originals]:
    """Eval mode inside, without fast paths; then the model and random states are as before.

    Restored are flags, attributes, lists, dicts, sets and objects in attributes, tables of modules, buffers and
    parameters. Where it is not `watched`, the caller tells the `Originals` of tensors that are about to be written.
    `holders`: what `holders_of` gives, for a caller that asked for it.
    """
    # In eval mode torch runs whole encoder layers as one kernel, which hides what they do, and gives zeros where
    # inputs are padded, but not under every mode: outputs of two runs could not be compared.
    fast_path = torch.backends.mha.get_fastpath_enabled()
    parameters = list(model.parameters())
    devices = sorted({tensor.device.index or 0 for tensor in parameters if tensor.is_cuda})
    few = sum(tensor.untyped_storage().nbytes() for tensor in parameters) <= _FEW_BYTES
    with ExitStack() as restored:  # every step is taken, also after one that fails
        restored.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        restored.callback(random.setstate, random.getstate())
        if numpy := sys.modules.get("numpy"):
            restored.callback(numpy.random.set_state, numpy.random.get_state())
        restored.enter_context(torch.random.fork_rng(devices))
        originals = Originals(model)
        restored.callback(originals.restore)
        if watched and few:
            originals.keep(parameters)
        for module in model.modules():
            restored.callback(_keep_module(module))
        for _, kept in holders_of(model) if holders is None else holders:
            restored.callback(_keep_object(kept))
        torch.backends.mha.set_fastpath_enabled(False)
        model.eval()
        with _eagerly(), originals if watched and not few else nullcontext():
            yield originals


def _eagerly() -> AbstractContextManager[Any]:
    """Inside, compiled parts of a model run as they are written: nothing compiles what watches the ops."""
    compiler = sys.modules.get("torch._dynamo")
    return torch.compiler.set_stance("force_eager") if compiler else nullcontext()


def _keep_module(module: nn.Module) -> Callable[[], None]:
    """What puts the attributes and tables of a module back, its children excepted."""
    if isinstance(module, torch.jit.ScriptModule):  # its attributes are not Python's
        training = module.training

        def restore_flag() -> None:
            module.training = training

        return restore_flag
    attributes = vars(module)
    return _keep_entries(attributes, *(attributes[name] for name in _TABLES))


def _keep_object(kept: Any) -> Callable[[], None]:
    """What gives an object its attributes back, and a dict, list, set or deque its entries."""
    containers = [kept] if isinstance(kept, dict | list | set | deque) else []
    containers += [vars(kept)] if hasattr(kept, "__dict__") else []
    restore_entries = _keep_entries(*containers)
    slots = [(name, getattr(kept, name)) for name in slots_of(type(kept)) if hasattr(kept, name)]

    def restore() -> None:
        restore_entries()
        for name, value in slots:
            if getattr(kept, name, None) is not value:
                object.__setattr__(kept, name, value)

    return restore if slots else restore_entries


def _keep_entries(*containers: Any) -> Callable[[], None]:
    """What gives dicts, lists, sets and deques their entries back."""
    empty = [c for c in containers if not c]
    kept = [(c, tuple(c), tuple(c.values()) if isinstance(c, dict) else ()) for c in containers if c]

    def put_back() -> None:
        for container in empty:
            if container:
                container.clear()
        for container, entries, values in kept:
            now = container.values() if isinstance(container, dict) else ()
            same = all(map(operator.is_, container, entries)) and all(map(operator.is_, now, values))
            if same and len(container) == len(entries):
                continue
            container.clear()
            if isinstance(container, dict):
                container.update(zip(entries, values, strict=True))
            else:
                container.update(entries) if isinstance(container, set) else container.extend(entries)

    return put_back


class Originals(TorchDispatchMode):
    """Keeps the values of parameters that are about to be written, and of all buffers."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # a wrapper around each op, which `_eagerly` makes needless

    def __init__(self, model: nn.Module):
        super().__init__()
        self._buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
        self._parameters: dict[int, list[Tensor]] = defaultdict(list)
        """By the address of their storage, which cuDNN's layers make one for all of theirs."""
        for parameter in model.parameters():
            self._parameters[parameter.untyped_storage().data_ptr()].append(parameter)
        self._values: dict[int, list[Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if writes(func):
            self.keep(written(func, bind(func, args, kwargs)))
        return func(*args, **kwargs)

    def keep(self, tensors: Iterable[Tensor]) -> None:
        """Says that tensors are about to be written."""
        for tensor in tensors:
            storage = tensor.untyped_storage().data_ptr()
            if storage in self._parameters and storage not in self._values:
                self._values[storage] = [parameter.detach().clone() for parameter in self._parameters[storage]]

    def restore(self) -> None:
        """Writes the values back."""
        kept = list(self._buffers)
        for storage, values in self._values.items():
            kept += zip(self._parameters[storage], values, strict=True)
        with torch.no_grad():
            for tensor, value in kept:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
