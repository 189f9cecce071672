"""What the train steps reported: the last values, running means, rows for a file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch

Row = dict[str, float | int]


class Metrics:
    """Values of the last step and their means since the last row.

    Values stay tensors until someone reads them: reading waits for the device, recording does not.
    """

    def __init__(self) -> None:
        self._last: dict[str, torch.Tensor | float] = {}
        self._since_row: dict[str, list[torch.Tensor | float]] = {}

    def record(self, values: Mapping[str, torch.Tensor | float]) -> None:
        """Adds the values of one step."""
        self._last = dict(values)
        for name, value in values.items():
            self._since_row.setdefault(name, []).append(value)

    @property
    def last(self) -> dict[str, float]:
        """The values of the last step; empty before the first."""
        return {name: float(value) for name, value in self._last.items()}

    @property
    def mean(self) -> dict[str, float]:
        """The means over the steps since the last row."""
        return {name: math.fsum(map(float, values)) / len(values) for name, values in self._since_row.items()}

    @property
    def pending(self) -> bool:
        """Whether steps were recorded since the last row."""
        return bool(self._since_row)

    def row(self) -> Row:
        """Last values under their names, means under `<name>_mean`; the means start anew."""
        values: Row = {**self.last, **{f"{name}_mean": value for name, value in self.mean.items()}}
        self._since_row.clear()
        return values


def append_json_line(path: Path, row: Mapping[str, float | int]) -> None:
    """Adds one line to a file of JSON lines, in one write; numbers that JSON lacks become their names as text."""
    plain = {name: value if math.isfinite(value) else str(value) for name, value in row.items()}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(plain, allow_nan=False) + "\n")
