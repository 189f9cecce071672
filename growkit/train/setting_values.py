"""Settings whose value depends on where a run stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping

from growkit.errors import EngineError, SettingsError
from growkit.train.arguments import SignatureCall

OFFERED = ("epoch", "step", "updates")
"""What a function may name: the epoch (from 1), the batch over all epochs (from 0), optimizer steps done."""


class ChangingSetting(ABC):
    """A setting with a value for every point of a run, and the same one whenever it is asked for that point."""

    @abstractmethod
    def at(self, *, epoch: int, step: int, updates: int) -> object:
        """The value for the batch `step` of the epoch `epoch`, after `updates` optimizer steps."""


class _Table(ChangingSetting):
    """Values from the point of their key on."""

    _first = 0
    _unit = ""

    def __init__(self, values: Mapping[int, object]):
        name = type(self).__name__
        allowed = f"a dict from {self._unit} (ints, the first one {self._first}) to the value from there on"
        if not isinstance(values, Mapping):
            raise SettingsError(f"{name}({values!r})", allowed, f"write {name}({{{self._first}: value, ...}})")
        for key, value in values.items():
            if isinstance(value, ChangingSetting):
                raise SettingsError(f"{name} with the value {value!r}", "constants as values", "write one table")
            if not isinstance(key, int) or isinstance(key, bool) or key < self._first:
                raise SettingsError(f"{name} with the key {key!r}", allowed, "give an int")
        if self._first not in values:
            raise SettingsError(
                f"{name}({dict(values)!r}), without a value to begin with", allowed, f"add the key {self._first}"
            )
        self.values = {key: values[key] for key in sorted(values)}
        """From the first point on at which each value holds, in order."""

    def _from(self, point: int) -> object:
        keys = list(self.values)
        return self.values[keys[bisect_right(keys, point) - 1]]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, _Table) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.values!r})"


class StepwiseSetting(_Table):
    """Values by step: `StepwiseSetting({0: 1e-3, 1000: 5e-4})` is 5e-4 from the batch of index 1000 on.

    Raises: SettingsError for keys that are no steps, and without a value for step 0.
    """

    _unit = "steps"

    def at(self, *, epoch: int, step: int, updates: int) -> object:
        """The value of the largest key that is not above `step`."""
        return self._from(step)


class EpochwiseSetting(_Table):
    """Values by epoch: `EpochwiseSetting({1: 16, 5: 64})` is 64 from the fifth epoch on.

    Raises: SettingsError for keys that are no epochs, and without a value for epoch 1.
    """

    _first, _unit = 1, "epochs"

    def at(self, *, epoch: int, step: int, updates: int) -> object:
        """The value of the largest key that is not above `epoch`."""
        return self._from(epoch)


class ComputedSetting(ChangingSetting):
    """The value that a function of `epoch`, `step` and `updates` gives; it names what it needs.

    A function given for a setting is one by itself; among the keys of `Settings(user={...})`, where a
    function is a value like any other, it has to be written. It must give the same value whenever it is
    called for the same point, and on every rank: it is called again where a run goes on.

    Raises: SettingsError for a parameter that nothing can fill.
    """

    def __init__(self, function: Callable[..., object]):
        self.function = function
        try:
            self._call = SignatureCall(function, OFFERED, "the function of a setting")
        except EngineError as error:
            raise SettingsError(error.given, error.allowed, f"name only {', '.join(OFFERED)}") from error

    def at(self, *, epoch: int, step: int, updates: int) -> object:
        """What the function returns."""
        return self._call({"epoch": epoch, "step": step, "updates": updates})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComputedSetting) and self.function == other.function

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ComputedSetting({getattr(self.function, '__name__', repr(self.function))})"
