"""Blocks in containers, and whether they add to what they are given."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.axis import Block
from growkit.discovery.identity import SAME, Identity, Obstacle
from growkit.discovery.inputs import tensors_in
from growkit.discovery.operations import Op, Value
from growkit.nn.contents import Contents


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
        self._written: dict[int, list[int]] = defaultdict(list)
        """Numbers of the ops that wrote each tensor."""
        self._now: dict[int, Value] = {}
        """Each tensor as the last of them left it."""
        self._sharing: dict[int, set[int]] = defaultdict(set)
        """Tensors by the address of their storage."""
        self._unplaced: list[Tensor] = []
        """Those that are not yet among them."""
        self._entered: list[int] = []
        self._runs: dict[str, list[_Run]] = {}
        self.tensors: dict[int, Tensor] = {}
        """What ops and modules were given and gave, by id, so that no id is used twice."""

    def op(
        self, name: str, where: str, arguments: Mapping[str, Any], made: Collection[Tensor], written: Iterable[Tensor]
    ) -> list[Tensor]:
        """Notes one op; `written`: operands that it writes in place. Gives the tensors that it was given."""
        number = len(self.ops)
        given: list[Tensor] = []
        values = {
            argument: self._with_values(value, given) if isinstance(value, (Tensor, list, tuple)) else value
            for argument, value in arguments.items()
        }
        self.ops.append(Op(name, where, values, tuple(map(id, made))))
        self._meet((*given, *made))
        changed = {id(tensor) for tensor in made}
        for tensor in written:
            changed |= self._sharing_with(tensor)
        for tensor_id in changed:
            self._written[tensor_id].append(number)
            self._now[tensor_id] = Value(tensor_id, number)
        return given

    def stand_for(self, one: Tensor, other: Tensor) -> None:
        """Says that ops which are given one tensor are given another, of which it is a part."""
        self._now[id(one)] = self._now.get(id(other)) or Value(id(other), -1)

    def moved(self, tensor: Tensor) -> None:
        """Notes that a tensor lies elsewhere now."""
        self._unplaced.append(tensor)

    def _meet(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if id(tensor) not in self.tensors:
                self.tensors[id(tensor)] = tensor
                self._unplaced.append(tensor)

    def _sharing_with(self, tensor: Tensor) -> set[int]:
        """The tensors of the run that share memory with one of them."""
        for one in self._unplaced:
            self._sharing[one.untyped_storage().data_ptr()].add(id(one))
        self._unplaced.clear()
        return self._sharing[tensor.untyped_storage().data_ptr()]

    def output(self, tensor: Tensor) -> None:
        """Notes a result of the model."""
        self.outputs.append(self._with_values(tensor, []))

    def enter(self) -> None:
        """Notes that a module is called."""
        self._entered.append(len(self.ops))

    def leave(self, path: str, inputs: Any, result: Any) -> None:
        """Notes the end of the call of a module."""
        start, returned, tensors = self._entered.pop(), tensors_in(result), tensors_in(inputs)
        given = tuple(self._value(tensor, start) for tensor in tensors)
        self._meet((*tensors, *returned))
        self._runs.setdefault(path, []).append(
            _Run(start, given, self._with_values(returned[0], []) if returned else None)
        )

    def blocks(self, contents: Contents, axes_of: Callable[[Tensor], tuple[str, ...]]) -> Iterator[Block]:
        """The children of each `ModuleList` and `Sequential` that ran once; `axes_of` names the axes of a tensor."""
        parameters = {id(parameter): name for name, parameter in contents.parameters.items()}
        made = self._made_by_modules()
        for container, module in contents.modules.items():
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
                identity = Identity(self.ops, run.start, frozenset(run.inputs), own, self._shown)
                residual, tail, summed = _ending(path, identity, result, made)
                silenced, obstacle = self._silenced(identity, summed, before) if residual else ({}, "")
                ordered = {name: silenced[name] for name in own.values() if name in silenced}
                axes = axes_of(self.tensors[result.tensor])
                yield Block(container, index, axes, residual, tail, ordered, obstacle)
                before = result

    def _silenced(self, identity: Identity, result: Value, before: Value | None) -> tuple[Mapping[str, float], str]:
        """The parameters that make a block the identity, or what is in the way."""
        try:
            given, silenced = identity.passed(result)
        except Obstacle as obstacle:
            return {}, f"adds to its input what no parameter makes zero: {obstacle.where}"
        if before is not None and self._source(given) != self._source(before):
            return {}, "passes on something else than what the block before it returned"
        return {name: identity.start_of(name) for name in silenced}, ""

    def _source(self, value: Value) -> Value:
        """What a value was before copies of it."""
        while value.number >= 0 and self.ops[value.number].name in SAME:
            value = self.ops[value.number].arguments["self"]
        return value

    def _made_by_modules(self) -> dict[Value, list[tuple[str, Value]]]:
        """Results of modules that ran once: each such module, and what it was given, outer ones first."""
        made: dict[Value, list[tuple[str, Value]]] = defaultdict(list)
        for path, (run, *more) in sorted(self._runs.items(), key=lambda item: len(item[0])):
            if run.result is not None and run.inputs and run.inputs[0] != run.result and not more:
                made[run.result].append((path, run.inputs[0]))
        return made

    def _with_values(self, argument: Any, met: list[Tensor]) -> Any:
        """An argument of an op with values in the place of tensors, which are added to `met`."""
        if isinstance(argument, Tensor):
            met.append(argument)
            return self._now.get(id(argument)) or Value(id(argument), -1)
        return [self._with_values(x, met) for x in argument] if type(argument) in (list, tuple) else argument

    def _shown(self, tensor_id: int) -> tuple[torch.dtype, torch.Size]:
        tensor = self.tensors[tensor_id]
        return tensor.dtype, tensor.shape

    def _value(self, tensor: Tensor, before: int) -> Value:
        """A tensor as it was before an op."""
        written = self._written.get(id(tensor), [])
        last = bisect_left(written, before)
        return Value(id(tensor), written[last - 1] if last else -1)


def _ending(
    path: str, identity: Identity, result: Value, made: Mapping[Value, Iterable[tuple[str, Value]]]
) -> tuple[bool, tuple[str, ...], Value]:
    """Whether a result is a sum with one of the inputs, the modules after that sum, and the sum."""
    tail: list[str] = []
    while result in identity.inputs or not identity.reaches(result):
        last = next((found for found in made.get(result, ()) if found[0].startswith(f"{path}.")), None)
        if last is None:
            return False, tuple(tail), result
        name, result = last
        tail.insert(0, name.removeprefix(f"{path}."))
    return True, tuple(tail), result
