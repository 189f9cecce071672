"""Writes that can be taken back."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, MutableSequence
from typing import Any

from growkit.nn.places import Step, slots_of

_MISSING = object()


class Journal:
    """Remembers how to undo each write, in order.

    With `keep=False` it remembers nothing, so that old tensors are freed as soon as they are replaced.
    """

    def __init__(self, keep: bool = True):
        self.keep = keep
        self.writes = 0
        self._undo: list[Callable[[], object]] = []

    def set_item(self, mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
        """`mapping[key] = value`"""
        old = mapping.get(key, _MISSING)
        if old is _MISSING:
            self._did(lambda: mapping.pop(key, None))
        else:
            self._did(lambda: mapping.__setitem__(key, old))
        mapping[key] = value

    def del_item(self, mapping: MutableMapping[Any, Any], key: Any) -> None:
        """`del mapping[key]`"""
        old = mapping[key]
        self._did(lambda: mapping.__setitem__(key, old))
        del mapping[key]

    def replace_items(self, mapping: MutableMapping[Any, Any], items: list[tuple[Any, Any]]) -> None:
        """The mapping holds exactly `items`, in this order."""
        old = list(mapping.items())

        def restore() -> None:
            mapping.clear()
            mapping.update(old)

        self._did(restore)
        mapping.clear()
        mapping.update(items)

    def keep_order(self, mapping: MutableMapping[Any, Any]) -> None:
        """Nothing now; on the way back, the keys of now in their order of now."""
        keys = list(mapping)

        def restore() -> None:
            items = [(key, mapping[key]) for key in keys]
            mapping.clear()
            mapping.update(items)

        if self.keep:
            self._undo.append(restore)

    def set_element(self, sequence: MutableSequence[Any], index: int, value: Any) -> None:
        """`sequence[index] = value`"""
        old = sequence[index]
        self._did(lambda: sequence.__setitem__(index, old))
        sequence[index] = value

    def set_elements(self, sequence: MutableSequence[Any], values: list[Any]) -> None:
        """`sequence[:] = values`"""
        old = list(sequence)
        self._did(lambda: sequence.__setitem__(slice(None), old))
        sequence[:] = values

    def set_attribute(self, owner: object, name: str, value: Any) -> None:
        """`owner.name = value`, past any `__setattr__` of the class."""
        self.set_item(vars(owner), name, value)

    def take_over(self, other: Journal) -> None:
        """What `other` wrote is taken back here, too."""
        self.writes += other.writes
        if self.keep:
            self._undo += other._undo

    def put(self, holder: object, step: Step, value: Any) -> None:
        """Writes what is at a step of a holder (see `growkit.nn.places`)."""
        kind, key = step
        if kind == "item" and isinstance(holder, MutableSequence):
            self.set_element(holder, key, value)
        elif kind == "item" and isinstance(holder, MutableMapping):
            self.set_item(holder, key, value)
        elif hasattr(holder, "__dict__") and key not in slots_of(type(holder)):
            self.set_attribute(holder, key, value)
        else:
            old = getattr(holder, key)
            self._did(lambda: object.__setattr__(holder, key, old))
            object.__setattr__(holder, key, value)

    def undo(self) -> None:
        """Takes every write back, last first."""
        while self._undo:
            self._undo.pop()()

    def _did(self, undo: Callable[[], object]) -> None:
        self.writes += 1
        if self.keep:
            self._undo.append(undo)
