"""Where modules keep ints: in attributes, containers, objects such as a config, partial functions and closures.

A place is a path from the model: `layers.0.heads`, `config.hidden_size`, `split.axes_lengths['h']`, `sizes[0]`,
`split.keywords['heads']`, `split.__closure__['heads']`. Dicts, lists and objects are changed where they are, so that
what many modules hold stays one thing. Tuples, functions and `functools.partial` are values: their holder gets a new
one.
"""

from __future__ import annotations

import ast
import dis
import enum
import re
import types
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

Change = Callable[[str, int | None, int], int]
"""From the place of an int (its path, and the index inside a tuple or list) and its value to what shall be there."""
Step = tuple[str, Any]
"""From a holder to what it holds: `("attribute", name)`, `("item", key)` or `("cell", name)`."""

_MOST_STEPS, _MOST_ENTRIES = 6, 256
"""Farther away, or in larger collections, are no sizes but data."""
OWN_ATTRIBUTES = frozenset(vars(nn.Module()))
"""What every module has: tables of tensors, modules and hooks."""
_OPAQUE = (Tensor, nn.Module, type, types.ModuleType, enum.Enum, str, bytes)
_OPAQUE_PACKAGES = frozenset(
    {"torch", "functools", "einops", "logging", "threading", "multiprocessing", "concurrent", "asyncio"}
)
_STEP = re.compile(r"""\.?(?P<name>[^.\[\]]+)|\[(?P<key>-?\d+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]""")


def change_ints(model: nn.Module, change: Change) -> None:
    """Puts `change(path, index, value)` in the place of every int that modules keep, directly or not."""
    _Visit(change, lambda path, value: None, _PLAIN).run(model)


def holders_of(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Every dict, list, set, deque and object that modules keep, directly or not, each once, with its path."""
    found: list[tuple[str, Any]] = []
    _Visit(lambda path, index, value: value, lambda path, value: found.append((path, value)), _PLAIN | {int}).run(model)
    yield from found


def read(root: object, path: str) -> Any:
    """What is at a path.

    Raises:
        LookupError: there is nothing.
    """
    value: Any = root
    for step in steps_of(path):
        value = _get(value, step)
    return value


def slot_of(root: object, path: str, value: Any) -> tuple[Any, Step, Any]:
    """What has to be written so that `value` is at a path: a holder that can be changed, the step in it, the value."""
    steps = steps_of(path)
    holders = [root]
    for step in steps[:-1]:
        holders.append(_get(holders[-1], step))
    for holder, step in zip(holders[::-1], steps[::-1], strict=True):
        if not _is_value(holder):
            return holder, step, value
        value = _rebuilt(holder, {step: value})
    raise LookupError(path)


def steps_of(path: str) -> list[Step]:
    """The steps of a path."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise LookupError(path)
        at = match.end()
        if match["name"] is not None:
            steps.append(("attribute", match["name"]))
        elif steps[-1:] == [("attribute", "__closure__")]:
            steps[-1] = ("cell", ast.literal_eval(match["key"]))
        else:
            steps.append(("item", ast.literal_eval(match["key"])))
    return steps


class _Visit:
    """One walk over all that modules keep, but values of types that are `left_out`."""

    def __init__(self, change: Change, found: Callable[[str, Any], None], left_out: frozenset[Any]):
        self.change, self.found, self._left_out = change, found, left_out
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._ints: dict[type, list[tuple[Step, int]]] = {}
        """Those that classes keep."""

    def run(self, model: nn.Module) -> None:
        for path, module in model.named_modules():
            if not isinstance(module, torch.jit.ScriptModule):  # its attributes are not Python's
                self._inside(path, module, self._attributes_of(module), 0)

    def _attributes_of(self, module: nn.Module) -> list[tuple[Step, Any]]:
        """What a module keeps, and ints that its own class keeps for all instances."""
        kind, own = type(module), vars(module)
        kept = [(("attribute", name), value) for name, value in own.items() if name not in OWN_ATTRIBUTES]
        if int in self._left_out:
            return kept
        if kind not in self._ints:
            self._ints[kind] = _ints_of(kind)
        return kept + [(step, value) for step, value in self._ints[kind] if step[1] not in own]

    def _visit(self, path: str, value: Any, depth: int) -> Any:
        """What shall be in the place of a value."""
        kind = type(value)
        if kind is int:
            return self.change(path, None, value)
        if depth > _MOST_STEPS or isinstance(value, _OPAQUE):
            return value
        if _is_value(value):
            if id(value) in self._open:
                return value
            self._open.add(id(value))
            changed = self._changed(path, value, _parts(value), depth)
            self._open.remove(id(value))
            return _rebuilt(value, changed) if changed else value
        if id(value) not in self._seen and _can_be_changed(value):
            self._seen.add(id(value))
            self.found(path, value)
            if not isinstance(value, _SIZED) or len(value) <= _MOST_ENTRIES:
                self._inside(path, value, _parts(value), depth)
        return value

    def _inside(self, path: str, holder: Any, parts: list[tuple[Step, Any]], depth: int) -> None:
        for step, value in self._changed(path, holder, parts, depth).items():
            put(holder, step, value)

    def _changed(self, path: str, holder: Any, parts: list[tuple[Step, Any]], depth: int) -> dict[Step, Any]:
        changed = {}
        sequence = isinstance(holder, tuple | list)
        for step, value in parts:
            if type(value) in self._left_out:
                continue
            if type(value) is tuple and self._left_out.issuperset(map(type, value)):
                continue
            if type(value) is int and sequence:
                new = self.change(path, step[1], value)
            else:
                new = self._visit(_join(path, step), value, depth + 1)
            if new is not value:
                changed[step] = new
        return changed


_SIZED = (dict, list, set, deque)
_PLAIN = frozenset({bool, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Generator})


def _join(path: str, step: Step) -> str:
    kind, key = step
    if kind == "attribute":
        return f"{path}.{key}" if path else key
    return f"{path}.__closure__[{key!r}]" if kind == "cell" else f"{path}[{key!r}]"


def _is_value(holder: Any) -> bool:
    return isinstance(holder, tuple | partial | types.FunctionType | types.MethodType)


def _can_be_changed(value: Any) -> bool:
    kind = type(value)
    return isinstance(value, _SIZED) or (
        kind.__module__.partition(".")[0] not in _OPAQUE_PACKAGES
        and (hasattr(value, "__dict__") or bool(slots_of(kind)))
    )


def _ints_of(kind: type) -> list[tuple[Step, int]]:
    """The ints that a class of modules and its bases keep, torch's own excepted."""
    found: list[tuple[Step, int]] = []
    for number, base in enumerate(kind.__mro__):
        if base.__module__.partition(".")[0] in ("torch", "builtins"):
            break
        for name, value in vars(base).items():
            if type(value) is int and not name.startswith("__"):
                overridden = any(name in vars(derived) for derived in kind.__mro__[:number])
                found += [] if overridden else [(("attribute", name), value)]
    return found


def _parts(holder: Any) -> list[tuple[Step, Any]]:
    """What a holder holds, with the steps to it."""
    match holder:
        case dict():
            return [(("item", key), value) for key, value in holder.items() if type(key) in (str, int)]
        case list():
            return [(("item", number), value) for number, value in enumerate(holder)]
        case tuple():
            known = type(holder) in (tuple, torch.Size) or hasattr(type(holder), "_make")
            few = known and len(holder) <= _MOST_ENTRIES
            return [(("item", number), value) for number, value in enumerate(holder)] if few else []
        case set() | deque():
            return []
        case partial():
            return [(("attribute", name), getattr(holder, name)) for name in ("func", "args", "keywords")]
        case types.MethodType():
            return [(("attribute", "__self__"), holder.__self__), (("attribute", "__func__"), holder.__func__)]
        case types.FunctionType():
            return _parts_of_function(holder)
    slots = [name for name in slots_of(type(holder)) if hasattr(holder, name)]
    return [(("attribute", name), value) for name, value in getattr(holder, "__dict__", {}).items()] + [
        (("attribute", name), getattr(holder, name)) for name in slots
    ]


def _parts_of_function(function: types.FunctionType) -> list[tuple[Step, Any]]:
    """What was there when a function was made inside another: others say the same to everybody."""
    if "<locals>" not in function.__qualname__ and "<lambda>" not in function.__qualname__:
        return []
    found: list[tuple[Step, Any]] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found.append((("cell", name), cell.cell_contents))
        except ValueError:  # nothing in it yet
            continue
    kept = {id(value) for _, value in found if type(value) is int}
    if kept:  # what a function changes, others may have to see
        stored = {x.argval for x in dis.get_instructions(function) if x.opname == "STORE_DEREF"}
        found = [(step, value) for step, value in found if step[1] not in stored]
    defaults = [("__defaults__", function.__defaults__), ("__kwdefaults__", function.__kwdefaults__)]
    return found + [(("attribute", name), value) for name, value in defaults if value]


def slots_of(kind: type) -> list[str]:
    """The names of the slots of a class and its bases."""
    found = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        found += [slots] if isinstance(slots, str) else list(slots)
    return [name for name in found if not name.startswith("__")]


def _get(holder: Any, step: Step) -> Any:
    kind, key = step
    if kind == "attribute":
        if isinstance(holder, nn.Module) and key in holder._modules:
            return holder._modules[key]
        kept = getattr(holder, "__dict__", {})
        try:
            return kept[key] if key in kept else getattr(holder, key)
        except AttributeError as error:
            raise LookupError(key) from error
    if kind == "cell":
        if not isinstance(holder, types.FunctionType) or key not in holder.__code__.co_freevars:
            raise LookupError(key)
        return (holder.__closure__ or ())[holder.__code__.co_freevars.index(key)].cell_contents
    if not isinstance(holder, dict | list | tuple):
        raise LookupError(key)
    return holder[key]


def put(holder: Any, step: Step, value: Any) -> None:
    """Writes into a holder that can be changed, past any setter of its class."""
    kind, key = step
    kept = getattr(holder, "__dict__", None)
    if kind == "item":
        holder[key] = value
    elif kept is not None and (key in kept or key not in slots_of(type(holder))):
        kept[key] = value
    else:
        object.__setattr__(holder, key, value)


def _rebuilt(holder: Any, changed: dict[Step, Any]) -> Any:
    """A value like `holder` with other parts."""
    new = {key: value for (_, key), value in changed.items()}
    match holder:
        case tuple():
            entries = [new.get(number, entry) for number, entry in enumerate(holder)]
            kind = type(holder)
            return kind._make(entries) if hasattr(kind, "_make") else kind(entries)
        case partial():
            function, args, keywords = (new.get(name, getattr(holder, name)) for name in ("func", "args", "keywords"))
            made = type(holder)(function, *args, **keywords)
            vars(made).update(vars(holder))
            return made
        case types.MethodType():
            return types.MethodType(new.get("__func__", holder.__func__), new.get("__self__", holder.__self__))
    free = holder.__code__.co_freevars
    cells = tuple(
        types.CellType(new[name]) if name in new else cell
        for name, cell in zip(free, holder.__closure__ or (), strict=True)
    )
    copy = types.FunctionType(holder.__code__, holder.__globals__, holder.__name__, holder.__defaults__, cells)
    copy.__defaults__ = new.get("__defaults__", holder.__defaults__)
    copy.__kwdefaults__ = new.get("__kwdefaults__", holder.__kwdefaults__)
    copy.__qualname__, copy.__module__, copy.__doc__ = holder.__qualname__, holder.__module__, holder.__doc__
    vars(copy).update(vars(holder))
    return copy
