"""What batches are made from: an iterable, or a factory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from growkit.errors import EngineError, SettingsError
from growkit.train.arguments import SignatureCall

TrainData = Iterable[Any] | Callable[..., Iterable[Any]]


class DataSource:
    """An iterable of batches, read anew in every epoch, or a function `(*, epoch, batch_size, start)` that returns one.

    Such a factory gets what its signature names, and is called once for each iterable that is needed.
    `start`: samples of this epoch that were delivered already: 0, unless the batch size or the data
    changed inside the epoch. It is the sum of the batch sizes in force for the batches delivered, so
    every batch but the epoch's last must have `batch_size` samples. A factory that names `start` gives
    the samples of the epoch in the same order whatever the batch size, from that one on.

    Raises: EngineError for data that is neither.
    """

    def __init__(self, given: TrainData, what: str = "train_data"):
        self.given = given
        """The iterable or the function itself."""
        self._what = what
        self._factory: SignatureCall | None = None
        if _is_iterable(given) and not isinstance(given, type):
            return
        if not callable(given):
            raise EngineError(
                f"{what} is a {type(given).__name__}",
                "an iterable of batches, or a function (*, epoch, batch_size, start) that returns one",
                "pass a DataLoader, a list of batches, or such a function",
            )
        self._factory = SignatureCall(given, ("epoch", "batch_size", "start"), what)

    @property
    def goes_on(self) -> bool:
        """Whether it can begin inside an epoch: a factory that names `start` (`**kwargs` does not say so)."""
        return self._factory is not None and "start" in self._factory.named

    def check_batch_size(self, batch_size: int | None, *, needless: bool = False) -> None:
        """Whether a batch size is set exactly where something takes it; `needless`: it may be set anywhere.

        Raises: SettingsError.
        """
        taken = self._factory is not None and self._factory.takes("batch_size")
        if batch_size is not None and not taken and not needless:
            raise SettingsError(
                f"batch_size={batch_size} for {self._what} that does not take it",
                f"a function (*, epoch, batch_size) as {self._what}",
                "leave batch_size out (None), or make the batches in such a function",
            )
        if batch_size is None and self._factory is not None and "batch_size" in self._factory.required:
            raise SettingsError(
                f"no batch_size, and {self._what} asks for it",
                "a whole number >= 1",
                f"set Settings(batch_size=...), or give the parameter of {self._what} a default value",
            )

    def batches(self, *, epoch: int, batch_size: int | None, start: int = 0) -> Iterable[Any]:
        """The batches of one epoch from sample `start` on, which only a factory that names it heeds.

        Raises: EngineError for a factory that returns no iterable.
        """
        if self._factory is None:
            return self.given  # type: ignore[return-value]
        sizes = {} if batch_size is None else {"batch_size": batch_size}
        made: Any = self._factory({"epoch": epoch, "start": start, **sizes})
        if not _is_iterable(made):
            raise EngineError(
                f"{self._what} returned {type(made).__name__}", "an iterable of batches", "return or yield the batches"
            )
        return made


def batch_count(batches: Iterable[Any]) -> int | None:
    """How many batches an iterable says it has."""
    try:
        return len(batches)  # type: ignore[arg-type]
    except TypeError:  # A DataLoader has a length in name only where its data set has none.
        return None


def _is_iterable(value: object) -> bool:
    return hasattr(value, "__iter__") or hasattr(value, "__getitem__")
