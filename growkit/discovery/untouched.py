"""Running a model without leaving a trace in it."""

from __future__ import annotations

import operator
import random
import sys
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from growkit.discovery.call import bind, writes, written
from growkit.errors import InputsError
from growkit.nn.contents import Contents
from growkit.nn.places import slots_of

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
    kinds: dict[type, str] = {}
    for path, module in model.named_modules():
        kinds.setdefault(type(module), path)
    for kind, path in kinds.items():
        for base in kind.__mro__:
            if base.__name__ in _WRAPPERS:
                raise InputsError(
                    f"{path or 'the model'} is wrapped by {base.__name__}",
                    "the raw model: its parameters are whole and its axes can be traced",
                    "discover and grow before wrapping, or pass model.module and wrap again afterwards",
                )
    return model


def untouched(model: nn.Module) -> AbstractContextManager[Originals]:
    """Inside a model runs as inside `State.untouched`."""
    return State(Contents(model)).untouched()


class State:
    """The state of a model and of random generators, to be had again after each of several runs."""

    def __init__(self, contents: Contents):
        self._model, self._modules = contents.model, contents.modules.values()
        parameters = list(contents.parameters.values())
        self._devices = sorted({tensor.device.index or 0 for tensor in parameters if tensor.is_cuda})
        self._few = sum(tensor.untyped_storage().nbytes() for tensor in parameters) <= _FEW_BYTES
        self._entries = _Entries(contents)
        self._originals = Originals(parameters, contents.buffers.values())
        self._random = random.getstate()
        numpy = sys.modules.get("numpy.random")  # numpy loads it where something asks for it
        self._random_of_numpy = partial(numpy.set_state, numpy.get_state()) if numpy else None

    @contextmanager
    def untouched(self, watched: bool = True) -> Iterator[Originals]:
        """Eval mode inside, without fast paths; then the model and random states are as before.

        Restored are flags, attributes, lists, dicts, sets and objects in attributes, tables of modules, buffers and
        parameters. Where it is not `watched`, the caller tells the `Originals` of tensors that are about to be written.
        """
        # In eval mode torch runs whole encoder layers as one kernel, which hides what they do, and gives zeros where
        # inputs are padded, but not under every mode: outputs of two runs could not be compared.
        fast_path = torch.backends.mha.get_fastpath_enabled()
        with ExitStack() as restored:  # every step is taken, also after one that fails
            restored.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
            restored.callback(random.setstate, self._random)
            if self._random_of_numpy:
                restored.callback(self._random_of_numpy)
            restored.enter_context(torch.random.fork_rng(self._devices))
            restored.callback(self._originals.restore)
            if watched and self._few:
                self._originals.keep_all()
            restored.callback(self._entries.restore)
            torch.backends.mha.set_fastpath_enabled(False)
            if any(module.training for module in self._modules):
                self._model.eval()
            with _eagerly(), self._originals if watched and not self._few else nullcontext():
                yield self._originals


@contextmanager
def _eagerly() -> Iterator[None]:
    """Inside, compiled parts of a model run as they are written: nothing compiles what watches the ops."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        # hooks around a run are ours, and gone after it: compiled modules warn of them
        warnings.filterwarnings("ignore", "Using `torch.compile", UserWarning)
        yield


class _Entries:
    """The attributes and tables of modules, and what the objects and containers that they keep hold."""

    def __init__(self, contents: Contents):
        self._empty: list[dict[str, Any]] = []
        """Tables of modules, most of which are."""
        self._steps: list[Callable[[], None]] = []
        for module in contents.modules.values():
            if isinstance(module, torch.jit.ScriptModule):  # its attributes are not Python's
                self._steps.append(partial(_set, module, "training", module.training))
                continue
            attributes = vars(module)
            tables = [attributes[name] for name in _TABLES]
            self._empty += [table for table in tables if not table]
            self._steps += [_filling(container) for container in (attributes, *tables) if container]
        for _, kept in contents.holders:
            slots = [(name, getattr(kept, name)) for name in slots_of(type(kept)) if hasattr(kept, name)]
            self._steps += [partial(_set, kept, name, value) for name, value in slots]
            if hasattr(kept, "__dict__"):
                self._steps.append(_filling(vars(kept)))
            if isinstance(kept, dict | list | set | deque):
                self._steps.append(_filling(kept))

    def restore(self) -> None:
        """Puts all of it back, what was found last first; also what was found before something that fails."""
        for table in filter(None, self._empty):
            table.clear()
        failure = None
        for step in reversed(self._steps):
            try:
                step()
            except BaseException as error:
                failure = error
        if failure is not None:
            raise failure


def _set(kept: Any, name: str, value: Any) -> None:
    if getattr(kept, name, None) is not value:
        object.__setattr__(kept, name, value)


def _filling(container: Any) -> Callable[[], None]:
    """What gives a dict, list, set or deque its entries back."""
    values = tuple(container.values()) if isinstance(container, dict) else ()
    return partial(_fill, container, tuple(container), values)


def _fill(container: Any, entries: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    now = container.values() if isinstance(container, dict) else ()
    same = all(map(operator.is_, container, entries)) and all(map(operator.is_, now, values))
    if same and len(container) == len(entries):
        return
    container.clear()
    if isinstance(container, dict):
        container.update(zip(entries, values, strict=True))
    else:
        container.update(entries) if isinstance(container, set) else container.extend(entries)


class Originals(TorchDispatchMode):
    """Keeps the values of parameters that are about to be written, and of all buffers."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # a wrapper around each op, which `_eagerly` makes needless

    def __init__(self, parameters: Iterable[Tensor], buffers: Iterable[Tensor]):
        super().__init__()
        self._parameters = parameters
        self._values = [(buffer, buffer.detach().clone()) for buffer in buffers]

    @cached_property
    def _left(self) -> dict[int, list[Tensor]]:
        """Parameters whose values are not kept, by the address of their storage, which cuDNN's layers make one."""
        found: dict[int, list[Tensor]] = defaultdict(list)
        for parameter in self._parameters:
            found[parameter.untyped_storage().data_ptr()].append(parameter)
        return found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if writes(func):
            self.keep(written(func, bind(func, args, kwargs)))
        return func(*args, **kwargs)

    def keep(self, tensors: Iterable[Tensor]) -> None:
        """Says that tensors are about to be written."""
        for tensor in tensors:
            left = self._left.pop(tensor.untyped_storage().data_ptr(), ())
            self._values += [(parameter, parameter.detach().clone()) for parameter in left]

    def keep_all(self) -> None:
        """Says that any parameter may be written."""
        self.keep([tensor for tensors in self._left.values() for tensor in tensors])

    def restore(self) -> None:
        """Writes the values back."""
        with torch.no_grad():
            for tensor, value in self._values:
                if not torch.equal(tensor, value):
                    tensor.copy_(value)
