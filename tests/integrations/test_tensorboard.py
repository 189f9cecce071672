"""Event files, read back with TensorBoard's own reader and compared with the JSON lines."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
from tensorboard.summary.writer import event_file_writer
from torch import nn

import growkit as gk
from growkit.errors import MissingLibraryError
from growkit.integrations.tensorboard import TensorBoard
from growkit.train import Engine, Settings
from growkit.train.metrics import Row, read_json_lines

X = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3)


@pytest.fixture(autouse=True)
def first_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of one second and process are read in the order of their numbers as texts: 10 before 9."""
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))


def widen(epoch, growth):
    return growth.request("wide", widen={"0.weight[0]": 6}) if epoch >= 2 else None


def make_engine(run_dir: Path, *callbacks: Any, settings: Settings) -> Engine:
    torch.manual_seed(0)
    return Engine(
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double(),
        lambda model, batch: model(batch).square().mean(),
        [X] * 4,
        optimizers=lambda model: torch.optim.Adam(model.parameters()),
        settings=settings,
        callbacks=[TensorBoard(run_dir / "events"), *callbacks],
        epoch_callbacks=[widen],
        services={"growth": gk.Growth(X)},
        eval_step=lambda model, batch: model(batch).square().mean(),
        eval_data=[X],
        run_dir=run_dir,
        console=Console(quiet=True),
    )


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder), size_guidance={SCALARS: 0}).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def expected(rows: list[Row]) -> dict[str, list[tuple[int, float]]]:
    """Each number of JSON lines as (step, value), in the single precision that event files have."""
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if name != "step":
                found.setdefault(name, []).append((int(row["step"]), torch.tensor(value, dtype=torch.float32).item()))
    return found


def in_order(found: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    """Rows of steps and of evaluations share a few names, and a file that was gone on with holds one kind first."""
    return {name: sorted(values) for name, values in found.items()}


GROWTH = {"growth": [(4, 3.0 * 6 + 6 + 6 + 1)]}
"""Of the growth at the start of the second epoch: the number of parameters after it."""


def test_event_files_say_what_the_json_lines_say(tmp_path: Path) -> None:
    make_engine(tmp_path, settings=Settings(log_every=1, evaluate_every=1)).fit(epochs=3)
    rows = read_json_lines(tmp_path / "metrics.jsonl")
    assert len(rows) == 3 * 4 + 3
    assert scalars(tmp_path / "events") == expected(rows) | GROWTH
    assert [step for step, _ in scalars(tmp_path / "events")["loss"]] == [*range(1, 13)]


class Killed(Exception):
    """Stands for the end of the process."""


def killed_at(last: int) -> Any:
    def callback(step):
        if step == last:
            raise Killed

    return callback


@pytest.mark.parametrize("saved", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("killed", [6, 9])
def test_a_resumed_run_goes_on_in_its_folder_and_repeats_no_step(saved: int, killed: int, tmp_path: Path) -> None:
    """Saved before or after the growth at step 4, and killed later: once just after evaluation and growth."""
    settings = Settings(log_every=1, evaluate_every=1, checkpoint_every=saved, keep_last=None)
    with pytest.raises(Killed):
        make_engine(tmp_path, killed_at(killed), settings=settings).fit(epochs=3)
    make_engine(tmp_path, settings=settings).fit(epochs=3, resume="auto")
    rows = read_json_lines(tmp_path / "metrics.jsonl")
    assert len(rows) == 3 * 4 + 3
    assert in_order(scalars(tmp_path / "events")) == in_order(expected(rows) | GROWTH)


def test_a_second_fit_goes_on(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, settings=Settings(log_every=1, evaluate_every=1))
    engine.fit(epochs=1)
    engine.fit(epochs=2)
    rows = read_json_lines(tmp_path / "metrics.jsonl")
    assert in_order(scalars(tmp_path / "events")) == in_order(expected(rows) | GROWTH)


def test_numbers_that_are_not_finite_are_written(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path)
    engine = make_engine(tmp_path / "run", board, settings=Settings(log_every=1))
    engine.fit(max_steps=1)
    board.on_fit_start(progress=engine.progress, rows=[])
    board.on_row({"step": 2, "loss": float("inf"), "other": float("nan")})
    board.on_fit_end()
    found = scalars(tmp_path)
    assert found["loss"][-1] == (2, float("inf"))
    assert str(found["other"]) == "[(2, nan)]"


def test_other_ranks_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("growkit.train.ranks.Ranks.own", 1)
    board = TensorBoard(tmp_path / "events")
    engine = make_engine(tmp_path / "run", settings=Settings())
    board.on_fit_start(progress=engine.progress, rows=[])
    board.on_row({"step": 1, "loss": 0.5})
    board.on_growth(step=1, parameters=2)
    board.on_fit_end()
    assert not (tmp_path / "events").exists()


def test_a_missing_library_is_named_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(MissingLibraryError, match=r"no module tensorboard\n.*\n.*pip install 'growkit\[tensorboard\]'"):
        TensorBoard(tmp_path)
