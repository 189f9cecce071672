"""Which checkpoints of a run to keep, and which one to go on from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from growkit.checkpoint.folder import Description, describe, is_hidden, verify
from growkit.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Retention:
    """Keeps the `last` newest checkpoints and the `best` ones by a number in their meta.

    Raises: CheckpointError.
    """

    last: int | None = 3
    """The newest ones that stay; None keeps all."""
    best: int = 0
    """The best ones that stay too."""
    metric: str | None = None
    """Name of the number in `meta`; a checkpoint without it, or with NaN, is none of the best."""
    mode: str = "min"
    """Whether "min" or "max" of the metric is best."""

    def __post_init__(self) -> None:
        for name, value, lowest in (("last", self.last, 1), ("best", self.best, 0)):
            if value is not None and (type(value) is not int or value < lowest):
                raise CheckpointError(f"Retention({name}={value!r})", f"a whole number >= {lowest}", "give an int")
        if self.mode not in ("min", "max"):
            raise CheckpointError(f"Retention(mode={self.mode!r})", "'min' or 'max'", "give one of them")
        if (self.best > 0) != (self.metric is not None):
            raise CheckpointError(
                f"Retention(best={self.best}, metric={self.metric!r})", "both or none of them", "give both"
            )

    def expired(self, saved: Iterable[Description]) -> list[Description]:
        """Those of `saved` that need not stay, oldest first. Of equals in the metric the newer one stays."""
        by_age = sorted(saved, key=lambda one: one.step)
        if self.last is None:
            return []
        kept = {one.path for one in by_age[-self.last :]}
        rated = [one for one in by_age if self._rating(one) is not None]
        rated.sort(key=lambda one: (self._rating(one), -one.step))
        kept |= {one.path for one in rated[: self.best]}
        return [one for one in by_age if one.path not in kept]

    def _rating(self, one: Description) -> float | None:
        value = one.meta.get(self.metric) if self.metric is not None else None
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return None
        return value if self.mode == "min" else -value


@dataclass(frozen=True, slots=True)
class Latest:
    """The checkpoint to go on from."""

    found: Description | None
    """None where there is none that is whole."""
    skipped: tuple[tuple[Path, str], ...]
    """What was passed over for it, and why: all that cannot be read, and newer ones that are damaged."""


def latest(folder: str | Path, *, kind: str | None = None) -> Latest:
    """The checkpoint of the highest step in a folder whose files are all whole.

    kind: what its state has to be of; None takes any.
    """
    described, skipped = described_in(folder)
    for one in sorted(described, key=lambda one: (one.step, one.path), reverse=True):
        if kind not in (None, one.kind):
            skipped.append((one.path, f"a checkpoint of {one.kind!r}"))
            continue
        try:
            verify(one.path)
        except CheckpointError as error:
            skipped.append((one.path, error.given))
            continue
        return Latest(one, tuple(skipped))
    return Latest(None, tuple(skipped))


def described_in(folder: str | Path) -> tuple[list[Description], list[tuple[Path, str]]]:
    """The checkpoints of a folder, and its other folders with the reason why they are none."""
    described, skipped = [], []
    for path in sorted(Path(folder).glob("*")):  # "*" finds hidden names too
        if not path.is_dir():
            continue
        if is_hidden(path):
            skipped.append((path, "a save or a deletion that was cut off"))
            continue
        try:
            described.append(describe(path))
        except CheckpointError as error:
            skipped.append((path, error.given))
    return described, skipped
