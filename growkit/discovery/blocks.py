"""Blocks in containers, and whether they add to what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from growkit.axes.axis import Block
from growkit.discovery.inputs import tensors_in

_SAME = frozenset({"clone", "alias", "detach", "contiguous", "_to_copy"})
"""Ops whose result is their operand."""


class Flow:
    """How tensors of one run came about: by which sums, and out of which modules."""

    def __init__(self) -> None:
        self._terms: dict[int, tuple[int, ...]] = {}
        self._written: dict[int, bool] = {}
        """Tensors written in place, and whether only sums were."""
        self._calls: dict[str, list[tuple[tuple[int, ...], Tensor | None]]] = {}

    def op(self, name: str, arguments: Sequence[Any], alpha: Any, result: Any) -> None:
        """Notes one op: its name without trailing underscore, and the factor of the second term of a sum."""
        if not isinstance(result, Tensor):
            return
        operands = tuple(id(x) for x in arguments if isinstance(x, Tensor))
        adds = name in ("add", "sub")
        if id(result) in operands:
            self._written[id(result)] = adds and self._written.get(id(result), True)
        elif adds or name in _SAME:
            self._terms[id(result)] = operands if name == "add" and alpha == 1 else operands[:1]

    def module(self, path: str, inputs: Any, result: Any) -> None:
        """Notes one call of a module."""
        returned = tensors_in(result)
        self._calls.setdefault(path, []).append(
            (tuple(id(x) for x in tensors_in(inputs)), returned[0] if returned else None)
        )

    def blocks(self, model: nn.Module, axes_of: Callable[[Tensor], tuple[str, ...]]) -> Iterator[Block]:
        """The children of each `ModuleList` and `Sequential` that ran once; `axes_of` names the axes of a tensor."""
        for container, module in model.named_modules():
            if not isinstance(module, nn.ModuleList | nn.Sequential):
                continue
            for index, _ in enumerate(module):
                path = f"{container}.{index}" if container else str(index)
                calls = self._calls.get(path, [])
                if len(calls) != 1:
                    continue
                inputs, result = calls[0]
                if result is not None:
                    residual, tail = self._ending(path, inputs, id(result))
                    yield Block(container, index, axes_of(result), residual, tail)

    def _ending(self, path: str, inputs: tuple[int, ...], result: int) -> tuple[bool, tuple[str, ...]]:
        """Whether a result is a sum with one of the inputs, and the modules after that sum."""
        tail: list[str] = []
        while not self._adds(result, inputs):
            last = self._last_module(path, result)
            if last is None:
                return False, tuple(tail)
            name, result = last
            tail.insert(0, name)
        return True, tuple(tail)

    def _adds(self, result: int, inputs: tuple[int, ...]) -> bool:
        if result in inputs:
            return self._written.get(result, False)
        waiting, seen = list(self._terms.get(result, ())), {result}
        while waiting:
            term = waiting.pop()
            if term in inputs:
                return True
            if term not in seen:
                seen.add(term)
                waiting += self._terms.get(term, ())
        return False

    def _last_module(self, path: str, result: int) -> tuple[str, int] | None:
        """The outermost module inside `path` that made `result`, relative to `path`, and what it was given."""
        for inner, calls in sorted(self._calls.items(), key=lambda item: len(item[0])):
            if inner.startswith(path + ".") and len(calls) == 1:
                inputs, made = calls[0]
                if id(made) == result and inputs and inputs[0] != result:
                    return inner.removeprefix(path + "."), inputs[0]
        return None
