"""The traced run: each op tells the axes of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.nn.modules import module as module_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from growkit.axes.axis import Lock
from growkit.axes.node import Dim
from growkit.axes.union_find import Axes
from growkit.discovery.blocks import Flow
from growkit.discovery.call import DECLARE, OTHERS, Call, Known, Nature, Notes, Unfollowable, bind, flat, written
from growkit.discovery.derived import Derived
from growkit.discovery.floats import Floats
from growkit.discovery.given_numbers import GivenNumbers
from growkit.discovery.graph import Graph
from growkit.discovery.rule_table import WHOLE, rule_of
from growkit.discovery.stacks import Stacks
from growkit.discovery.taint import plain
from growkit.nn.contents import Contents, qualified_name
from growkit.nn.places import OWN_ATTRIBUTES

_BUFFER = "register the tensor as a buffer, or clear it if it is a cache"
_RESHAPING = frozenset({"squeeze_", "unsqueeze_", "t_", "transpose_"})
"""Ops that change the shape of the tensor itself."""

_UNSET = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
"""Ops whose result may hold any values: here zeros."""


class Tracer(TorchDispatchMode):
    """Follows the axes of all tensors while the model runs with real values.

    `before_write` is told which tensors an op is about to write.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # see `untouched`

    def __init__(
        self,
        contents: Contents,
        before_write: Callable[[list[Tensor]], None] = lambda tensors: None,
    ):
        super().__init__()
        self._before_write = before_write
        self.axes = Axes()
        self.held: dict[str, list[Dim]] = {}
        """Dims of each parameter and buffer."""
        self.read: set[str] = set()
        self.cuts: list[tuple[Dim, int]] = []
        """Pieces of axes that were taken out since the last call of a torch function ended."""
        self.warnings: dict[str, None] = {}
        self.flow, self.derived, self.floats, self.stacks = Flow(), Derived(), Floats(), Stacks()
        self.numbers = GivenNumbers()
        self._known: dict[int, Known] = {}
        self._alive: list[Tensor] = []
        """Every tensor seen, so that no id is used twice."""
        self.entered: list[str] = []
        """Paths of modules in the order of their calls."""
        self.used: set[int] = set()
        """Tensors that ops or torch functions were given."""
        self.noted: list[tuple[list[Tensor], Notes, str]] = []
        """Results of ops that are passages, the passages and their place."""
        self._names: dict[int, str] = {}
        self._plain: dict[int, str] = {}
        """Where modules keep tensors that are no parameters or buffers, as long as the run has not read them."""
        self._parameters: dict[int, list[Dim]] = {}
        """Dims of each parameter by the address of its storage."""
        self._written: set[int] = set()
        """Storages into which an activation was written."""
        self.slices: dict[int, tuple[Dim, int, int]] = {}
        self._stack: list[str] = []
        self._running: list[nn.Module] = []
        self._scripted = 0
        """How many of these are scripted."""
        self._module_paths = {id(module): path for path, module in contents.modules.items()}
        self._stack_own: list[bool] = []
        for nature, tensors in ((Nature.WEIGHT, contents.parameters), (Nature.CONSTANT, contents.buffers)):
            for name, tensor in tensors.items():
                dims = [[self.axes.node(size, named=True)] for size in tensor.shape]
                self.held[name] = dims
                self._names[id(tensor)] = name
                if nature is Nature.WEIGHT:
                    self._parameters[tensor.untyped_storage().data_ptr()] = dims
                self.remember(tensor, Known(dims, nature))

        self._hold_plain_tensors(contents)

    def _hold_plain_tensors(self, contents: Contents) -> None:
        """Locks tensors that modules keep otherwise, also in lists, dicts and objects: growth does not reach them."""
        plain_objects = ((path, holder) for path, holder in contents.holders if hasattr(holder, "__dict__"))
        for path, holder in (*contents.modules.items(), *plain_objects):
            for name, value in vars(holder).items():
                if name in OWN_ATTRIBUTES or (not isinstance(value, Tensor) and type(value) not in (list, tuple, dict)):
                    continue
                for tensor in flat([value]):
                    if isinstance(tensor, Tensor) and id(tensor) not in self._known:
                        where = f"{path}.{name}" if path else name
                        self.remember(tensor, self._outside(tensor, where))
                        self._plain[id(tensor)] = where

    def _outside(self, tensor: Tensor, where: str) -> Known:
        """What is known about a tensor that growth does not reach: its axes cannot grow."""
        known = Known([[] if size == 1 else [self.axes.node(size)] for size in tensor.shape], Nature.CONSTANT)
        for dim in known.dims:
            self.axes.lock(dim, Lock("a tensor that is no parameter or buffer has it", where, _BUFFER))
        return known

    def warn_of_caches(self) -> None:
        """Notes tensors that modules keep and that the run did not read: they stay as they are."""
        for where in dict.fromkeys(self._plain.values()):
            text = f"{where} keeps a tensor that the run did not read: if it is a cache of another size, clear it"
            self.warnings[text] = None

    def enter_input(self, tensor: Tensor) -> None:
        """Says that a tensor is an input of the model."""
        if id(tensor) not in self._known:
            dims = [[] if size == 1 else [self.axes.node(size)] for size in tensor.shape]
            self.remember(tensor, Known(dims, Nature.ACTIVATION))
            for dim in dims:
                self.axes.note(dim, "input", "input")

    def note_passages(self, results: Iterable[Tensor], model: nn.Module) -> None:
        """Records what activations passed on their way to something: to `results`, or into what modules keep.

        What nothing reads, such as weights of attention that nobody asked for, is no way.
        """
        tables = OWN_ATTRIBUTES - {"_parameters", "_buffers"}
        attributes = (item for module in model.modules() for item in vars(module).items())
        kept = flat(value for name, value in attributes if name not in tables)
        self.used.update(id(x) for x in (*results, *kept) if isinstance(x, Tensor))
        for made, notes, where in self.noted:
            if not made or any(id(tensor) in self.used for tensor in made):
                for dim, kind in notes:
                    if isinstance(kind, Lock):
                        self.axes.lock(dim, kind)
                    else:
                        self.axes.note(dim, kind, where)

    def leave_output(self, tensor: Tensor) -> None:
        """Says that a tensor is a result of the model."""
        self.flow.output(tensor)
        known = self._known.get(id(tensor))
        for dim in known.dims if known else ():
            self.axes.note(dim, "output", "output")

    @property
    def module(self) -> nn.Module | None:
        """The innermost module that runs."""
        return self._running[-1] if self._running else None

    def where(self, op: str) -> str:
        """The place in the model at which the run is: module path, and the op if it is no module's own."""
        if not self._stack:
            return f"({op})"
        return self._stack[-1] if self._stack_own[-1] else f"{self._stack[-1]} ({op})"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Follows what runs inside; hooks and modes are gone afterwards, also after an error."""
        onednn = torch._C._get_mkldnn_enabled()
        hooks = [
            module_hooks.register_module_forward_pre_hook(self._enter_module),
            module_hooks.register_module_forward_hook(self._leave_module, with_kwargs=True, always_call=True),
        ]
        torch._C._set_mkldnn_enabled(False)  # its kernels would hide what a whole recurrent layer does
        try:
            with torch.no_grad(), self:
                yield
        finally:
            torch._C._set_mkldnn_enabled(onednn)
            for hook in hooks:
                hook.remove()
                # torch forgets this entry (2.13), and then takes every module for hooked for ever after
                module_hooks._global_forward_hooks_with_kwargs.pop(hook.id, None)

    def _enter_module(self, module: nn.Module, inputs: Any) -> None:
        self.flow.enter()
        path, kind = self._module_paths.get(id(module)), type(module)
        if path is not None:
            self.entered.append(path)
        self._running.append(module)
        self._scripted += isinstance(module, torch.jit.ScriptModule)
        self._stack.append(path or kind.__name__)
        own = path is not None and kind.__module__.startswith("torch.nn.") and not module._modules
        self._stack_own.append(own)
        if reason := WHOLE.get(qualified_name(kind)):
            lock = Lock(reason, self.where("parametrization"), OTHERS)
            for tensor in (*tree_leaves(inputs), *module.buffers()):
                for dim in self.dims(tensor) if isinstance(tensor, Tensor) else ():
                    self.axes.lock(dim, lock)

    def _leave_module(self, module: nn.Module, inputs: Any, kwargs: Any = None, result: Any = None) -> None:
        # After an error torch calls this with fewer arguments.
        self.flow.leave(self._stack.pop(), (inputs, kwargs), result)
        self._stack_own.pop()
        self._running.pop()
        self._scripted -= isinstance(module, torch.jit.ScriptModule)
        if isinstance(result, Tensor) and qualified_name(type(module)) in WHOLE:
            self.remember(result, Known(self.dims(inputs[0]), Nature.WEIGHT))

    def known(self, tensor: Tensor) -> Known:
        """What is known about a tensor; one that was never seen is a constant."""
        known = self._known.get(id(tensor))
        if known is None:
            sizes = map(plain, tensor.shape)  # which may be asked for while sizes are tracked
            known = Known([[] if size == 1 else [self.axes.node(size)] for size in sizes], Nature.CONSTANT)
            self.remember(tensor, known)
        if known.nature is Nature.CONSTANT and tensor.untyped_storage().data_ptr() in self._written:
            known = Known(known.dims, Nature.ACTIVATION)
        return known

    def dims(self, tensor: Tensor) -> list[Dim]:
        """The dims of a tensor."""
        return self.known(tensor).dims

    def nature(self, tensor: int) -> Nature:
        """What a tensor of the run depends on, as `known` says of it."""
        return self.known(self.flow.tensors[tensor]).nature

    def graph(self) -> Graph:
        """The run as a graph."""
        return Graph(self.axes, self.flow.ops, self._known.get, self._names, self.flow.outputs)

    def warn_of_values(self, tensor: Tensor, where: str) -> None:
        """Notes that the run takes values out of a tensor, by which it may branch."""
        if self.known(tensor).nature is Nature.ACTIVATION:
            self.warnings[f"the run branches on values at {where}: other branches were not seen"] = None

    def remember(self, tensor: Tensor, known: Known) -> None:
        """Takes note of what is known about a tensor."""
        self._known[id(tensor)] = known
        self._alive.append(tensor)

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        arguments = bind(func, args, kwargs)
        changed = written(func, arguments)
        if changed:
            self._before_write(changed)
        result = func(*args, **kwargs)
        op = func.overloadpacket
        if op.__name__ in _UNSET:
            result.zero_()
        outputs = [result] if isinstance(result, Tensor) else [x for x in flat([result]) if isinstance(x, Tensor)]
        number, where, name = len(self.flow.ops), self.where(op.__name__), op.__name__.rstrip("_")
        inputs = self.flow.op(name, where, arguments, outputs, changed)
        given = set(map(id, inputs))
        self.used |= given
        for x in given:
            if x in self._names:
                self.read.add(self._names[x])
            elif x in self._plain:
                del self._plain[x]
        call = Call(
            self.axes, name, arguments, result, where, self.known, self.cuts, self.derived, self.slices, self.stacks
        )
        self.floats.op(number, arguments.values())
        self.numbers.op(number, arguments, where, self.dims)
        rule: Callable[[Call], Any] | None = rule_of(func)
        try:
            if rule is None and inputs:
                raise Unfollowable(f"{op} is no op that growkit knows")
            if self._scripted:
                raise Unfollowable("a scripted module computes it")
            if op is torch.ops.aten._local_scalar_dense:
                self.warn_of_values(inputs[0], self.where("item"))
            found = rule(call) if rule else None
        except Unfollowable as reason:
            found = [self._opaque(x, inputs) for x in outputs]
            lock = Lock(str(reason), where, DECLARE)
            for known in [*map(self.known, inputs), *found]:
                for dim in known.dims:
                    self.axes.lock(dim, lock, declarable=True)
        for tensor in changed:
            call.written(tensor)
            for dim in self._parameters.get(tensor.untyped_storage().data_ptr(), ()):
                call.lock(dim, "the forward pass writes to a parameter of it", OTHERS)
        if call.notes:
            # not the call, which knows this tracer: in a circle, tensors would outlive the run
            self.noted.append(([] if changed else outputs, call.notes, where))
        found = [found] if isinstance(found, Known) else found or []
        for tensor, known in zip(outputs, found, strict=False):
            self._check(tensor, known, where)
            if id(tensor) in given:
                if known.nature is Nature.ACTIVATION:
                    self._written.add(tensor.untyped_storage().data_ptr())
                if op.__name__ in _RESHAPING:
                    self.remember(tensor, known)
                elif known.nature is Nature.WEIGHT:  # what was read of it before, or is read through views
                    for dim in self.dims(tensor):
                        call.lock(dim, "a tensor that is computed from parameters is changed in place")
            else:
                self.remember(tensor, known)
        return result

    def _opaque(self, tensor: Tensor, inputs: list[Tensor]) -> Known:
        nature = max((self.known(x).nature for x in inputs), default=Nature.CONSTANT)
        return Known([[] if size == 1 else [self.axes.node(size)] for size in tensor.shape], nature)

    def _check(self, tensor: Tensor, known: Known, where: str) -> None:
        sizes = [dim[0].size if len(dim) == 1 else prod([node.size for node in dim]) for dim in known.dims]
        assert sizes == list(tensor.shape), (
            f"the rule at {where} says {sizes} of a tensor of shape {list(tensor.shape)}"
        )
