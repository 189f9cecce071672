"""Blocks in containers, and whether they add to what they are given."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.axis import Block
from growkit.discovery.call import Call
from growkit.discovery.identity import SAME, Identity, Obstacle, Op, Value
from growkit.discovery.inputs import tensors_in


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of a module: the number of its first op, its tensors, the first of what it gave."""

    start: int
    inputs: tuple[Value, ...]
    result: Value | None


class Flow:
    """How tensors of one run came about: by which ops, and out of which modules."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.outputs: list[Value] = []
        self._written: dict[int, list[int]] = {}
        """Numbers of the ops that wrote each tensor."""
        self._sharing: dict[int, set[int]] = {}
        """Tensors by the address of their storage."""
        self._shown: dict[int, tuple[torch.dtype, torch.Size]] = {}
        self._entered: list[int] = []
        self._runs: dict[str, list[_Run]] = {}
        self._tensors: dict[int, Tensor] = {}
        """What modules were given and gave, so that no id is used twice."""

    def op(self, call: Call, inputs: Iterable[Tensor], outputs: Iterable[Tensor], written: Iterable[Tensor]) -> None:
        """Notes one op; `written`: operands that it writes in place."""
        number, made = len(self.ops), list(outputs)
        arguments = {name: self._with_values(argument) for name, argument in call.arguments.items()}
        self.ops.append(Op(call.op, call.where, arguments, tuple(map(id, made))))
        for tensor in (*inputs, *made):
            self._shown[id(tensor)] = (tensor.dtype, tensor.shape)
            self._sharing.setdefault(tensor.untyped_storage().data_ptr(), set()).add(id(tensor))
        changed = {id(tensor) for tensor in made}
        for tensor in written:
            changed |= self._sharing[tensor.untyped_storage().data_ptr()]
        for tensor_id in changed:
            self._written.setdefault(tensor_id, []).append(number)

    def output(self, tensor: Tensor) -> None:
        """Notes a result of the model."""
        self.outputs.append(self._value(tensor))

    def enter(self) -> None:
        """Notes that a module is called."""
        self._entered.append(len(self.ops))

    def leave(self, path: str, inputs: Any, result: Any) -> None:
        """Notes the end of the call of a module."""
        start, returned, tensors = self._entered.pop(), tensors_in(result), tensors_in(inputs)
        given = tuple(self._value(tensor, start) for tensor in tensors)
        for tensor in (*tensors, *returned):
            self._shown.setdefault(id(tensor), (tensor.dtype, tensor.shape))
            self._tensors[id(tensor)] = tensor
        self._runs.setdefault(path, []).append(_Run(start, given, self._value(returned[0]) if returned else None))

    def blocks(self, model: nn.Module, axes_of: Callable[[Tensor], tuple[str, ...]]) -> Iterator[Block]:
        """The children of each `ModuleList` and `Sequential` that ran once; `axes_of` names the axes of a tensor."""
        parameters = {id(parameter): name for name, parameter in model.named_parameters()}
        for container, module in model.named_modules():
            if not isinstance(module, nn.ModuleList | nn.Sequential):
                continue
            before: Value | None = None
            for index, _ in enumerate(module):
                path = f"{container}.{index}" if container else str(index)
                runs = self._runs.get(path, [])
                result = runs[0].result if len(runs) == 1 else None
                if result is None:
                    before = None
                    continue
                (run,) = runs
                own = {
                    i: name.removeprefix(path + ".") for i, name in parameters.items() if name.startswith(path + ".")
                }
                identity = Identity(self.ops, run.start, frozenset(run.inputs), own, self._shown.__getitem__)
                residual, tail, summed = self._ending(path, identity, result)
                silenced, obstacle = self._silenced(identity, summed, before) if residual else ((), "")
                ordered = tuple(name for name in own.values() if name in silenced)
                axes = axes_of(self._tensors[result.tensor])
                yield Block(container, index, axes, residual, tail, ordered, obstacle)
                before = result

    def _silenced(self, identity: Identity, result: Value, before: Value | None) -> tuple[Iterable[str], str]:
        """The parameters that make a block the identity, or what is in the way."""
        try:
            given, silenced = identity.passed(result)
        except Obstacle as obstacle:
            return (), f"adds to its input what no parameter makes zero: {obstacle.where}"
        if before is not None and self._source(given) != self._source(before):
            return (), "passes on something else than what the block before it returned"
        return silenced, ""

    def _source(self, value: Value) -> Value:
        """What a value was before copies of it."""
        while value.number >= 0 and self.ops[value.number].name in SAME:
            value = self.ops[value.number].arguments["self"]
        return value

    def _ending(self, path: str, identity: Identity, result: Value) -> tuple[bool, tuple[str, ...], Value]:
        """Whether a result is a sum with one of the inputs, the modules after that sum, and the sum."""
        tail: list[str] = []
        while result in identity.inputs or not identity.reaches(result):
            last = self._last_module(path, result)
            if last is None:
                return False, tuple(tail), result
            name, result = last
            tail.insert(0, name)
        return True, tuple(tail), result

    def _last_module(self, path: str, result: Value) -> tuple[str, Value] | None:
        """The outermost module inside `path` that made `result`, relative to `path`, and what it was given."""
        for inner, runs in sorted(self._runs.items(), key=lambda item: len(item[0])):
            if inner.startswith(path + ".") and len(runs) == 1:
                run = runs[0]
                if run.result == result and run.inputs and run.inputs[0] != result:
                    return inner.removeprefix(path + "."), run.inputs[0]
        return None

    def _with_values(self, argument: Any) -> Any:
        """An argument of an op with values in the place of tensors."""
        if isinstance(argument, Tensor):
            return self._value(argument)
        return [self._with_values(x) for x in argument] if type(argument) in (list, tuple) else argument

    def _value(self, tensor: Tensor, before: int | None = None) -> Value:
        """A tensor as it is now, or as it was before an op."""
        written = self._written.get(id(tensor), [])
        last = len(written) if before is None else bisect_left(written, before)
        return Value(id(tensor), written[last - 1] if last else -1)
