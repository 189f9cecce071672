"""What train and eval steps reported: the last values, means, rows for a file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from growkit.errors import EngineError

Row = dict[str, float | int]


class Metrics:
    """Values of the last step and their means since the last row.

    Values stay tensors until someone reads them: reading waits for the device, recording does not.
    """

    def __init__(self) -> None:
        self._last: dict[str, torch.Tensor | float] = {}
        self._since_row: dict[str, list[tuple[torch.Tensor | float, float]]] = {}
        self.evaluation: dict[str, float] = {}
        """Results of the last evaluation; empty before the first."""

    def record(self, values: Mapping[str, torch.Tensor | float], weight: float = 1.0) -> None:
        """Adds the values of one step, or of a split that is such a part of one."""
        self._last = dict(values)
        for name, value in values.items():
            self._since_row.setdefault(name, []).append((value, weight))

    @property
    def last(self) -> dict[str, float]:
        """The values of the last step; empty before the first."""
        return {name: float(value) for name, value in self._last.items()}

    @property
    def mean(self) -> dict[str, float]:
        """The means over the steps since the last row."""
        return {name: _mean(values) for name, values in self._since_row.items()}

    @property
    def pending(self) -> bool:
        """Whether steps were recorded since the last row."""
        return bool(self._since_row)

    def state_dict(self) -> dict[str, Any]:
        """The values of the last step and those since the last row, and the results of the last evaluation."""
        since = {name: [[float(value), weight] for value, weight in values] for name, values in self._since_row.items()}
        return {"last": self.last, "since_row": since, "evaluation": self.evaluation}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state_dict` returned."""
        self._last = dict(state["last"])
        self._since_row = {name: [(v, w) for v, w in values] for name, values in state["since_row"].items()}
        self.evaluation = dict(state["evaluation"])

    def row(self) -> Row:
        """Last values under their names, means under `<name>_mean`; the means start anew."""
        values: Row = {**self.last, **{f"{name}_mean": value for name, value in self.mean.items()}}
        self._since_row.clear()
        return values


def _mean(values: Sequence[tuple[torch.Tensor | float, float]]) -> float:
    return math.fsum(float(value) * weight for value, weight in values) / math.fsum(weight for _, weight in values)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What an eval step measured on one batch."""

    values: Mapping[str, torch.Tensor | float]
    """Means over the batch, detached."""
    count: torch.Tensor | float | None = None
    """What they are means over, such as samples or frames; None where the step does not say."""


def weighted_means(measured: Sequence[Measurement]) -> dict[str, float]:
    """The mean of each value over all batches, each weighing as much as its count; and the counts' sum as `count`.

    Without counts every batch weighs the same. A value that some batches lack is averaged over the others.

    Raises: EngineError for counts of some batches only, or that are no weights.
    """
    counted = [batch.count is not None for batch in measured]
    if any(counted) and not all(counted):
        raise EngineError(
            f"eval_step returned a count for {sum(counted)} of {len(counted)} batches",
            "a count for every batch, or for none",
            "return count=... in every dict",
        )
    weights = [1.0 if batch.count is None else float(batch.count) for batch in measured]
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise EngineError(f"counts {weights[:4]} of eval_step", "finite numbers >= 0", "return the number of samples")
    results = {}
    for name in dict.fromkeys(name for batch in measured for name in batch.values):
        parts = [(float(b.values[name]), w) for b, w in zip(measured, weights, strict=True) if w and name in b.values]
        if not parts:
            raise EngineError(f"no sample for the metric {name!r}", "a count above 0", "evaluate on more data")
        results[name] = math.fsum(value * w for value, w in parts) / math.fsum(w for _, w in parts)
    return {**results, "count": math.fsum(weights)} if any(counted) else results


def append_json_line(path: Path, row: Mapping[str, float | int]) -> None:
    """Adds one line to a file of JSON lines, in one write; numbers that JSON lacks become their names as text."""
    with path.open("a", encoding="utf-8") as file:
        file.write(_line(row))


def read_json_lines(path: Path) -> list[Row]:
    """The rows that `append_json_line` wrote; a last line that was cut off is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            row = json.loads(line)
            rows.append({name: float(value) if isinstance(value, str) else value for name, value in row.items()})
    return rows


def write_json_lines(path: Path, rows: Sequence[Row]) -> None:
    """A file of these rows, in the place of one that is there."""
    written = path.with_name(f".{path.name}.new")
    written.write_text("".join(map(_line, rows)), encoding="utf-8")
    written.replace(path)


def _line(row: Mapping[str, float | int]) -> str:
    plain = {name: value if math.isfinite(value) else str(value) for name, value in row.items()}
    return json.dumps(plain, allow_nan=False) + "\n"
