"""What the demo shows in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.table import Table

from growkit.cli.recipe import Stage
from growkit.cli.stages import GrowthRecord
from growkit.cli.training import Trained
from growkit.growth.report import Report


def growth_table(stage: Stage, record: GrowthRecord, report: Report) -> Table:
    """What grew, and what the growth left as it was."""
    table = Table(title=f"Growth at step {record.step}: {stage.name}", title_justify="left", show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right")
    for width in report.plan.width:
        table.add_row(width.axis, f"{width.old} -> {width.new} ({width.method})")
    for depth in report.plan.depth:
        table.add_row(f"blocks in {depth.container}", f"{depth.old} -> {depth.new}")
    table.add_section()
    table.add_row("parameters", f"{record.parameters_before:,} -> {record.parameters_after:,}")
    table.add_row("loss on a fixed batch", f"{record.loss_before:.4f} -> {record.loss_after:.4f}")
    table.add_row("largest relative deviation of the outputs", f"{record.max_rel_deviation:.1e}")
    table.add_row("optimizer slots of grown tensors", _slots(report))
    if report.new_parameters:
        table.add_row("tensors of new blocks, without a past", str(len(report.new_parameters)))
    return table


def _slots(report: Report) -> str:
    """How many slots moved exactly, and how many have entries without a past."""
    counts = Counter(slot.status for slots in report.slots.values() for slot in slots)
    return (
        ", ".join(f"{counts[status]} {status}" for status in ("exact", "approximate", "new", "reset") if counts[status])
        or "-"
    )


def closing_table(runs: Mapping[str, Trained]) -> Table:
    """The runs side by side, by title."""
    table = Table(title="In the end", title_justify="left")
    table.add_column("network")
    for title in ("parameters", "steps", "FLOPs", "test accuracy"):
        table.add_column(title, justify="right")
    for title, run in runs.items():
        table.add_row(
            title, f"{run.parameters:,}", f"{run.steps:,}", f"{run.training_flops:.2e}", f"{run.test_accuracy:.3f}"
        )
    return table
