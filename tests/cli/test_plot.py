"""The figure of the losses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from growkit.cli.plot import plot_losses, running_means
from growkit.cli.recipe import Stage

STAGES = (Stage(2, "wider", {"model_dim": 2.0}), Stage(4, "deeper", num_layers=2))
LOSSES = {"grown": [3.0, 2.0, 1.0, 1.0, 0.5], "small": [3.0, 2.5]}


def test_every_run_is_drawn_and_every_growth_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: saved.append(figure))
    assert plot_losses(tmp_path / "loss.png", LOSSES, STAGES)
    (axes,) = saved[0].axes
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines if not line.get_label().startswith("_")}
    assert lines == {"grown": [3.0, 2.5, 2.0, 1.75, 1.5], "small": [3.0, 2.75]}
    assert [line.get_xdata()[0] for line in axes.lines if line.get_label().startswith("_")] == [2, 4]
    assert [text.get_text() for text in axes.texts] == ["wider", "deeper"]


def test_a_png_is_written(tmp_path: Path) -> None:
    assert plot_losses(tmp_path / "loss.png", LOSSES, STAGES)
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_nothing_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not plot_losses(tmp_path / "loss.png", LOSSES, STAGES)
    assert list(tmp_path.iterdir()) == []


def test_running_means() -> None:
    assert running_means([4.0, 2.0, 0.0, 6.0], 2) == [4.0, 3.0, 1.0, 3.0]
