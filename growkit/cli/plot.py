"""The training losses as a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from growkit.cli.recipe import Stage

SMOOTHED_OVER = 15


def plot_losses(path: Path, losses: Mapping[str, Sequence[float]], stages: Sequence[Stage]) -> bool:
    """Draws the loss of each run over its steps, and marks the growths; False if matplotlib is missing.

    `losses`: by title of the run, smoothed here by running means.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="step", ylabel=f"training loss (mean of {SMOOTHED_OVER} steps)")
    for title, values in losses.items():
        axes.plot(running_means(values, SMOOTHED_OVER), label=title)
    for stage in stages:
        axes.axvline(stage.step, color="gray", linestyle="--", linewidth=1)
        axes.annotate(
            stage.name, (stage.step, 1), (4, -4), xycoords=("data", "axes fraction"), textcoords="offset points",
            rotation=90, va="top", color="gray",
        )  # fmt: skip
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    return True


def running_means(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and those before it, `window` of them at most."""
    parts = [values[max(0, end - window) : end] for end in range(1, len(values) + 1)]
    return [sum(part) / len(part) for part in parts]
