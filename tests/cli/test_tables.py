"""Tables as they are printed, 80 columns wide."""

from __future__ import annotations

import io

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import growkit as gk
from growkit.cli.recipe import Sizes, Stage
from growkit.cli.stages import GrowthRecord
from growkit.cli.tables import closing_table, growth_table
from growkit.cli.training import Trained
from growkit.growth.report import Report

INPUTS = (torch.randn(2, 6, 12), torch.tensor([6, 4]))


def printed(table: Table) -> list[list[str]]:
    """The cells of each line."""
    output = io.StringIO()
    Console(file=output, width=80).print(table)
    lines = output.getvalue().splitlines()
    return [[cell.strip() for cell in line.replace("┃", "│").strip("│ ").split("│")] for line in lines]


def grown(stage: Stage) -> Report:
    model = Sizes().build()
    optimizer = torch.optim.AdamW(model.parameters())
    model(*INPUTS).sum().backward()
    optimizer.step()
    return gk.grow(model, widen=stage.widen, deepen=stage.deepen, optimizers=optimizer, example_inputs=INPUTS)


def test_growth_in_width() -> None:
    stage = Stage(60, "wider", {"ffn_dim": 4.0})
    report = grown(stage)
    rows = printed(growth_table(stage, GrowthRecord(60, "width", 1000, 2500, 1.25e-7, 1.5, 1.5), report))
    assert rows[0] == ["Growth at step 60: wider"]
    for number in (1, 2):
        assert [f"encoder.layers.0.feed_forward{number}.linear1.weight[0]", "2 -> 8 (fresh)"] in rows
    assert ["parameters", "1,000 -> 2,500"] in rows
    assert ["largest relative deviation of the outputs", "1.2e-07"] in rows
    assert ["loss on a fixed batch", "1.5000 -> 1.5000"] in rows
    # Two matrices and a bias in each of two feed-forwards grow, each with a step count and two moments.
    assert ["optimizer slots of grown tensors", "6 exact, 12 new"] in rows


def test_growth_in_depth() -> None:
    stage = Stage(9, "deeper", num_layers=2)
    report = grown(stage)
    rows = printed(growth_table(stage, GrowthRecord(9, "depth", 10, 20, 0.0, 1.0, 1.0), report))
    assert ["blocks in encoder.layers", "1 -> 2"] in rows
    assert ["tensors of new blocks, without a past", str(len(report.new_parameters))] in rows


def test_closing_table() -> None:
    runs = {"grown while it trained": Trained(nn.Linear(30, 40), 600, (), 11_100_000_000, 0.9811)}
    rows = printed(closing_table(runs))
    assert rows[0] == ["In the end"]
    assert ["grown while it trained", "1,240", "600", "1.11e+10", "0.981"] in rows
