"""Last values, means, rows, JSON lines."""

import json
from pathlib import Path

import torch

from growkit.train.metrics import Metrics, append_json_line


def test_last_values_and_means_since_the_last_row() -> None:
    metrics = Metrics()
    assert (metrics.last, metrics.mean, metrics.pending) == ({}, {}, False)
    metrics.record({"loss": torch.tensor(4.0), "accuracy": 0.25})
    metrics.record({"loss": torch.tensor(1.0)})
    assert metrics.last == {"loss": 1.0}
    assert metrics.mean == {"loss": 2.5, "accuracy": 0.25}
    assert metrics.pending
    assert metrics.row() == {"loss": 1.0, "loss_mean": 2.5, "accuracy_mean": 0.25}
    assert (metrics.last, metrics.mean, metrics.pending) == ({"loss": 1.0}, {}, False)


def test_json_lines_are_appended_and_parse_whatever_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_json_line(path, {"step": 1, "loss": 0.5})
    append_json_line(path, {"step": 2, "loss": float("nan"), "loss_mean": float("-inf")})
    lines = [json.loads(line, parse_constant=lambda name: 1 / 0) for line in path.read_text().splitlines()]
    assert lines == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": "nan", "loss_mean": "-inf"}]
