"""What batches are made from: an iterable, or a factory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from growkit.errors import EngineError, SettingsError
from growkit.train.arguments import SignatureCall
from growkit.train.batch_samples import may_have_samples
from growkit.train.loader_state import keeps_state

TrainData = Iterable[Any] | Callable[..., Iterable[Any]]


class DataSource:
    """An iterable of batches, read anew in every epoch, or a factory `(*, epoch, batch_size, start, user)`.

    Such a factory gets what its signature names, and is called once for each iterable that is needed.
    `start`: samples of this epoch that were delivered already: 0, unless the batch size or the data
    changed inside the epoch, or a run goes on there. A factory that names `start` gives the samples of
    the epoch in the same order whatever the batch size, from that one on. Each batch counts as
    `batch_size` samples; if it cannot have so many and is not the epoch's last, `start` is not known
    any more, and is not used. An attribute `samples_in` of the factory, a function of a batch, counts them instead.

    `user`: the keys of `Settings(user={...})` as they were in force at the start of the epoch.

    A factory that draws from generators of its own, or keeps other state from epoch to epoch, has
    `state_dict` and `load_state_dict` for a run that goes on.

    Raises: EngineError for data that is neither.
    """

    def __init__(self, given: TrainData, what: str = "train_data"):
        self.given = given
        """The iterable or the function itself."""
        self._what = what
        self._samples_in: Callable[[Any], int] | None = getattr(given, "samples_in", None)
        self._factory: SignatureCall | None = None
        if _is_iterable(given) and not isinstance(given, type):
            return
        if not callable(given):
            raise EngineError(
                f"{what} is a {type(given).__name__}",
                "an iterable of batches, or a function (*, epoch, batch_size, start) that returns one",
                "pass a DataLoader, a list of batches, or such a function",
            )
        self._factory = SignatureCall(given, ("epoch", "batch_size", "start", "user"), what)

    @property
    def goes_on(self) -> bool:
        """Whether it can begin inside an epoch: a factory that names `start` (`**kwargs` does not say so)."""
        return self._factory is not None and "start" in self._factory.named

    @property
    def is_factory(self) -> bool:
        """Whether it makes an iterable for each epoch."""
        return self._factory is not None

    def samples_in(self, batch: object, batch_size: int | None) -> int | None:
        """Samples of one batch; None where they are not known.

        Raises: EngineError for a `samples_in` of the user's that gives no number of samples.
        """
        if self._samples_in is None:
            return batch_size if batch_size is not None and may_have_samples(batch, batch_size) else None
        count: object = self._samples_in(batch)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise EngineError(f"samples_in of {self._what} returned {count!r}", "a whole number >= 0", "return an int")
        return count

    def factory_state(self) -> Any:
        """State of a factory that keeps some; None for others."""
        return self.given.state_dict() if self.is_factory and keeps_state(self.given) else None  # type: ignore[union-attr]

    def restore_factory_state(self, state: Any) -> None:
        """Brings the factory to a state that `factory_state` returned.

        Raises: EngineError for a factory that keeps none, where there was one.
        """
        if self.is_factory and keeps_state(self.given):
            if state is not None:
                self.given.load_state_dict(state)  # type: ignore[union-attr]
        elif state is not None:
            raise EngineError(
                f"{self._what} without state_dict, and a state of it to go on from",
                "data like that of the interrupted run",
                "give the object that the run was started with",
            )

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

    @property
    def takes_user(self) -> bool:
        """Whether it is a factory that names `user` (`**kwargs` does not say so)."""
        return self._factory is not None and "user" in self._factory.named

    def batches(
        self, *, epoch: int, batch_size: int | None, start: int = 0, user: Mapping[str, Any] | None = None
    ) -> Iterable[Any]:
        """The batches of one epoch from sample `start` on, which only a factory that names it heeds.

        Raises: EngineError for a factory that returns no iterable.
        """
        if self._factory is None:
            return self.given  # type: ignore[return-value]
        sizes = {} if batch_size is None else {"batch_size": batch_size}
        own = {"user": dict(user or {})} if self.takes_user else {}
        made: Any = self._factory({"epoch": epoch, "start": start, **own, **sizes})
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
