"""Where batches come from: one iterator per epoch, with a look at the batch ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

import torch

from growkit.errors import EngineError, SettingsError
from growkit.train.arguments import SignatureCall

TrainData = Iterable[Any] | Callable[..., Iterable[Any]]


class Feed:
    """Batches of one epoch after another, from an iterable or from a factory `(*, epoch, batch_size)`.

    It holds at least one batch ahead, so that it knows which batch is an epoch's last, and a whole
    accumulation window where one is taken: only then is the window's true length known for data
    without a length. Batches are moved to the device when they are fetched.

    Raises: EngineError for data that is neither, or an epoch without a batch.
    """

    def __init__(self, source: TrainData, *, device: torch.device | None = None):
        self._source = source
        self._device = device
        self._ahead: deque[Any] = deque()
        self._batches: Iterator[Any] | None = None
        self._epoch: int | None = None
        self.length: int | None = None
        """Batches in the open epoch, where the data says so."""
        self._factory: SignatureCall | None = None
        iterable = hasattr(source, "__iter__") or hasattr(source, "__getitem__")
        if iterable and not isinstance(source, type):
            return
        if not callable(source):
            raise EngineError(
                f"train_data is a {type(source).__name__}",
                "an iterable of batches, or a function (*, epoch, batch_size) that returns one",
                "pass a DataLoader, a list of batches, or such a function",
            )
        self._factory = SignatureCall(source, ("epoch", "batch_size"), "train_data")

    def check_batch_size(self, batch_size: int | None) -> None:
        """Whether a batch size is set exactly where something takes it.

        Raises: SettingsError.
        """
        if batch_size is not None and not (self._factory is not None and self._factory.takes("batch_size")):
            raise SettingsError(
                f"batch_size={batch_size} for train_data that does not take it",
                "a function (*, epoch, batch_size) as train_data",
                "leave batch_size out, or make the batches in such a function",
            )
        if batch_size is None and self._factory is not None and "batch_size" in self._factory.required:
            raise SettingsError(
                "no batch_size, and train_data asks for it",
                "a whole number >= 1",
                "set Settings(batch_size=...), or give the parameter of train_data a default value",
            )

    def open(self, epoch: int, batch_size: int | None, *, skip: int = 0) -> None:
        """Starts an epoch at its batch number `skip`; does nothing if this epoch is open already."""
        if self._epoch == epoch:
            return
        source: Any = self._source
        if self._factory is not None:
            source = self._factory({"epoch": epoch} | ({} if batch_size is None else {"batch_size": batch_size}))
        self._ahead.clear()
        self._batches = iter(source)
        self.length = len(source) if isinstance(source, Sized) else None
        for index in range(skip):
            if next(self._batches, self) is self:
                raise EngineError(
                    f"train_data gave {index} batches in epoch {epoch}",
                    f"more than {skip}, the position to go on from",
                    "give the data that the run was started with",
                )
        self._epoch = epoch
        if self.exhausted:
            self.close()
            raise EngineError(
                f"train_data gave no batch in epoch {epoch}",
                "at least one batch in every epoch",
                "a generator can be read once only: pass a list, a DataLoader, or a function that makes one",
            )

    def close(self) -> None:
        """Forgets the open epoch; the next `open` starts a new iterator."""
        self._epoch = None

    @property
    def exhausted(self) -> bool:
        """Whether the open epoch has no further batch."""
        self._fetch(1)
        return not self._ahead

    def peek(self) -> Any:
        """The next batch, left in place."""
        self._fetch(1)
        return self._ahead[0]

    def take(self, count: int) -> deque[Any]:
        """The next `count` batches of the epoch, or as many as it still has."""
        self._fetch(count)
        return deque(self._ahead.popleft() for _ in range(min(count, len(self._ahead))))

    def _fetch(self, count: int) -> None:
        assert self._batches is not None, "no epoch is open"
        while len(self._ahead) < count:
            batch = next(self._batches, self)
            if batch is self:
                return
            self._ahead.append(batch if self._device is None else _moved(batch, self._device))


def _moved(value: Any, device: torch.device) -> Any:
    """The same structure with its tensors on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(item, device) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_moved(item, device) for item in value)
    return value.to(device) if callable(getattr(value, "to", None)) else value
