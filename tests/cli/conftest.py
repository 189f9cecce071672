"""One run of the demo in a few steps, for all tests that look at what it leaves."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from growkit.cli.app import app


class DemoRun(NamedTuple):
    """What a run printed, where it wrote, and its `demo.json`."""

    stdout: str
    out: Path
    results: dict[str, Any]


def run_demo(out: Path, *options: str) -> DemoRun:
    result = CliRunner().invoke(app, ["demo", "--out", str(out), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return DemoRun(result.stdout, out, json.loads((out / "demo.json").read_text()))


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    return run_demo(tmp_path_factory.mktemp("demo") / "run", "--steps", "8", "--seed", "3")


@pytest.fixture(autouse=True)
def import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts import from their folder first; not so once the test is over."""
    monkeypatch.setattr(sys, "path", [*sys.path])
