"""Bars in a terminal, plain lines elsewhere."""

import io
from typing import Any

import pytest
from rich.console import Console

from growkit.train import Progress, Settings
from growkit.train.progress_bar import BarDisplay, LineDisplay, make_display, row_text


def test_a_terminal_gets_bars_and_anything_else_lines() -> None:
    assert isinstance(make_display(Console(file=io.StringIO(), force_terminal=True)), BarDisplay)
    assert isinstance(make_display(Console(file=io.StringIO(), force_terminal=False)), LineDisplay)


def test_a_row_is_one_line() -> None:
    assert row_text({"epoch": 2, "loss": 0.123456}) == "epoch 2  loss 0.1235"


def test_plain_lines_are_one_per_row_without_escapes(make_engine: Any) -> None:
    output = io.StringIO()
    engine = make_engine(console=Console(file=output, width=20), settings=Settings(log_every=5))
    engine.fit(2)
    assert output.getvalue() == "".join(f"{row_text(row)}\n" for row in engine.history)
    assert len(engine.history) == 2


def test_text_is_not_read_as_markup() -> None:
    output = io.StringIO()
    LineDisplay(Console(file=output, width=20)).message("layers[0] grew [red] from 4 to 8 units")
    assert output.getvalue() == "layers[0] grew [red] from 4 to 8 units\n"


def test_bars_count_epochs_or_steps_and_end_clean(make_engine: Any) -> None:
    for limits, counted in (({"epochs": 2}, "epochs"), ({"max_steps": 7}, "steps")):
        output = io.StringIO()
        console = Console(file=output, width=160, force_terminal=True, color_system=None)
        engine = make_engine(console=console, settings=Settings(log_every=5))
        engine.fit(**limits)
        last = output.getvalue().split("\r")[-1]
        assert counted in last
        assert {"epochs": "2/2", "steps": "7/7"}[counted] in last
        assert "epoch 2" in last
        assert {"epochs": "5/5", "steps": "2/5"}[counted] in last
        assert "loss" in last
        assert console._live_stack == []


def test_a_bar_that_stopped_ignores_what_comes_late() -> None:
    output = io.StringIO()
    display = BarDisplay(Console(file=output, force_terminal=True))
    display.batch_done(Progress(), 3)
    display.row({"loss_mean": 1.0})
    display.stop()
    assert output.getvalue() == ""


def test_an_evaluation_has_a_bar_of_its_own_in_a_fit_and_alone(make_engine: Any) -> None:
    for in_fit in (True, False):
        output = io.StringIO()
        console = Console(file=output, width=160, force_terminal=True, color_system=None)
        every = 1 if in_fit else None
        engine = make_engine(
            console=console,
            settings=Settings(evaluate_every=every),
            eval_step=lambda: 0.25,
            eval_data=[1, 2, 3],
        )
        if in_fit:
            engine.fit(2)
        else:
            engine.evaluate()
        last = output.getvalue().split("\r")[-1]
        assert "evaluation" in last
        assert "3/3" in last
        assert ("epochs" in last) == in_fit
        assert output.getvalue().count("eval_loss 0.25") == (2 if in_fit else 1)
        assert console._live_stack == []


def test_the_bars_are_taken_down_after_an_error_in_an_evaluation(make_engine: Any) -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    engine = make_engine(console=console, eval_step=lambda batch: 1 / batch, eval_data=[0])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            engine.evaluate()
        assert console._live_stack == []
