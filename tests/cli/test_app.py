"""The command line: what it prints, and how it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from growkit.cli.app import app, main
from tests.cli.conftest import DemoRun


def refusal(*options: str) -> str:
    result = CliRunner().invoke(app, ["demo", *options])
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_each_growth_and_the_end_are_shown_in_80_columns(demo_run: DemoRun) -> None:
    lines = demo_run.stdout.splitlines()
    for text in ("Growth at step 1: wider", "Growth at step 2: wider still", "Growth at step 3: deeper", "In the end"):
        assert sum(line.strip() == text for line in lines) == 1
    # Rows of metrics are lines of a log, as the engine writes them.
    assert max(len(line) for line in lines if not line.startswith("epoch")) <= 80


def test_json_is_all_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["growkit", "demo", "--json", "--steps", "5", "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    printed = capfd.readouterr()
    assert json.loads(printed.out) == json.loads((tmp_path / "run" / "demo.json").read_text())
    assert printed.err == ""


def test_unknown_device() -> None:
    assert refusal("--device", "tpu") == "growkit demo: --device tpu; allowed: cpu or cuda; choose one of them"


def test_absent_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    line = refusal("--device", "cuda")
    assert line.startswith("growkit demo: --device cuda, but torch finds no CUDA device; allowed: cpu")


@pytest.mark.parametrize("steps", ["0", "-3", "4"])
def test_too_few_steps(steps: str) -> None:
    assert refusal("--steps", steps).startswith(f"growkit demo: --steps {steps}; allowed: a whole number >= 5;")


@pytest.mark.parametrize("seed", ["-1", str(2**32)])
def test_seed_out_of_range(seed: str) -> None:
    assert refusal("--seed", seed).startswith(f"growkit demo: --seed {seed}; allowed: a whole number from 0")


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file of the user's")
    for out in (tmp_path / "taken", tmp_path / "taken" / "below"):
        assert refusal("--out", str(out)).startswith(f"growkit demo: --out {out}, where nothing can be written (")
    assert (tmp_path / "taken").read_text() == "a file of the user's"


def test_without_a_command_the_help_is_shown() -> None:
    assert "demo" in CliRunner().invoke(app, []).output
