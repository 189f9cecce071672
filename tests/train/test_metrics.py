"""Last values, means, rows, JSON lines."""

import json
from pathlib import Path

import pytest
import torch

from growkit.errors import EngineError
from growkit.train.metrics import Measurement, Metrics, append_json_line, weighted_means


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


def test_means_over_batches_of_different_counts() -> None:
    measured = [
        Measurement({"loss": torch.tensor(1.0), "bleu": 8.0}, torch.tensor(3)),
        Measurement({"loss": 5.0}, 1),
        Measurement({"loss": float("nan")}, 0),
    ]
    assert weighted_means(measured) == {"loss": (3 * 1.0 + 5.0) / 4, "bleu": 8.0, "count": 4.0}


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((3, None), "eval_step returned a count for 1 of 2 batches"),
        ((3, -1), r"counts \[3.0, -1.0\] of eval_step"),
        ((3, float("nan")), r"counts \[3.0, nan\] of eval_step"),
        ((0, 0), "no sample for the metric 'loss'"),
    ],
)
def test_counts_that_are_no_weights_are_refused(counts: tuple[float | None, ...], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        weighted_means([Measurement({"loss": 1.0}, count) for count in counts])
