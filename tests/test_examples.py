"""The examples run, and grow what they say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.report("R164")
def test_plain_loop(capsys: pytest.CaptureFixture[str]) -> None:
    losses = runpy.run_path(str(EXAMPLES / "plain_loop.py"))["main"]()
    assert sum(losses[-20:]) < 0.7 * sum(losses[:20])
    printed = capsys.readouterr().out
    assert printed.count("function kept") == 3
    assert "first.weight[0]: 4 -> 16 (net2net)" in printed
    assert "step 250" in printed


def test_callback_engine(capsys: pytest.CaptureFixture[str]) -> None:
    engine = runpy.run_path(str(EXAMPLES / "callback_engine.py"))["main"]()
    assert capsys.readouterr().out == "FitLoop -> EpochLoop -> AutomaticFlow\n"
    assert len(engine.model.blocks) == 3
    assert [block.up.out_features for block in engine.model.blocks] == [16, 16, 16]
    reports = engine._state.services["growth"].reports
    assert [report.verification.passed for report in reports] == [True, True]
    assert engine.history[-1]["loss"] < 0.1 < engine.history[0]["loss"]
