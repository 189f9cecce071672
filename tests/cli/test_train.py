"""`growkit train script.py`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from growkit.checkpoint import load
from growkit.cli.app import app

SCRIPT = """
import torch
from torch import nn

def get_model(*, epoch, step):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))

def train_step(model, batch):
    return (model(batch) - 1).square().mean()

train_data = [torch.ones(3, 2)] * 4
optimizers = lambda model: torch.optim.SGD(model.parameters(), lr=0.1)
settings = {"log_every": 2}
example_inputs = torch.ones(1, 2)
seen = []

def train_step_callback(step, growth):
    seen.append(step)
    if step >= 3:
        return growth.request("wide", widen={"0.weight[0]": 2.0})

def train_epoch_callback(epoch):
    print("epoch", epoch, "begins")
"""


def train(folder: Path, text: str, *options: str) -> Result:
    path = folder / "run.py"
    path.write_text(text)
    return CliRunner().invoke(app, ["train", str(path), *options], catch_exceptions=False)


def test_a_script_is_trained_and_grows(tmp_path: Path) -> None:
    result = train(tmp_path, SCRIPT + "epochs = 9", "--epochs", "2", "--run-dir", str(tmp_path / "run"), "--json")
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert (printed["epoch"], printed["step"], printed["updates"]) == (2, 8, 8)
    assert printed["parameters"] == 2 * 8 + 8 + 8 + 1  # grown to 8 hidden units
    assert printed["settings"]["epochs"] == {"value": 2, "from": "command line"}
    assert printed["settings"]["log_every"] == {"value": 2, "from": "script"}
    assert "epoch 2 begins" in result.stderr
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [2, 4, 6, 8]
    assert rows[-1] == printed["metrics"]
    assert rows[-1]["loss"] < rows[0]["loss"]


@pytest.mark.report("R162")
def test_settings_in_force_are_shown(tmp_path: Path) -> None:
    result = train(tmp_path, SCRIPT, "--max-steps", "1", "--set", "gradient_clip_norm=3e-1")
    assert result.stdout.splitlines()[:3] == [
        "gradient_clip_norm  0.3 (command line)",
        "log_every           2 (script)",
        "max_steps           1 (command line)",
    ]
    assert "epoch 1 begins" in result.stdout


def test_explain_trains_nothing(tmp_path: Path) -> None:
    result = train(tmp_path, SCRIPT + "epochs = 3", "--explain")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "FitLoop -> EpochLoop -> AutomaticFlow"
    assert "  AutomaticFlow (train_step returns a loss): nonfinite='raise', schedule_by='update'" in lines
    assert any(line.split() == ["accumulate_steps", "1", "(default)"] for line in lines)
    assert any(line.split() == ["epochs", "3", "(script)"] for line in lines)
    assert "begins" not in result.stdout


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x = 1", ["--epochs", "1"], "does not define get_model, train_step, train_data, optimizers"),
        (SCRIPT, [], "neither epochs nor max_steps"),
        (SCRIPT + "epochs = '3'", [], "epochs = '3' in the script"),
        (SCRIPT, ["--epochs", "1", "--set", "log_every=3"], "--set log_every=3, and the script sets log_every to 2"),
        (SCRIPT, ["--epochs", "1", "--set", "batch_size=3"], "batch_size=3 for train_data that does not take it"),
        (SCRIPT, ["--epochs", "-1"], "greater than or equal to 0"),
    ],
)
def test_refusals(tmp_path: Path, text: str, options: list[str], message: str) -> None:
    result = train(tmp_path, text, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "options", "own", "last"),
    [
        (
            "def f():\n    1 / 0\nf()\n",
            [],
            ["line 3, in <module>", "line 2, in f"],
            "ZeroDivisionError: division by zero",
        ),
        (
            SCRIPT.replace("return (model", "return (modl"),
            ["--epochs", "1"],
            ["in train_step"],
            "NameError: name 'modl' is not defined",
        ),
        ("def f(:\n", [], ["def f(:"], "SyntaxError: invalid syntax"),
    ],
)
def test_a_script_that_raises_shows_its_own_traceback(
    tmp_path: Path, text: str, options: list[str], own: list[str], last: str
) -> None:
    result = train(tmp_path, text, *options)
    assert result.exit_code == 1
    assert [part for part in own if part not in result.stderr] == []
    assert result.stderr.splitlines()[-1] == last
    assert "growkit/cli" not in result.stderr
    assert "importlib" not in result.stderr


def test_a_script_goes_on_from_its_newest_checkpoint(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "torch.manual_seed(0)\n"
        "model = torch.nn.Linear(2, 1)\n"
        "train_data = [torch.full((3, 2), float(i)) for i in range(4)]\n"
        "def train_step(model, batch): return model(batch).square().mean()\n"
        "def optimizers(model): return torch.optim.Adam(model.parameters(), lr=0.1)\n"
        "settings = {'checkpoint_every': 2}\n"
        "epochs = 2\n"
    )

    def last_loss(folder: str, *extra: str) -> float:
        result = CliRunner().invoke(app, ["train", str(script), "--run-dir", str(tmp_path / folder), *extra])
        assert result.exit_code == 0, result.output
        return json.loads((tmp_path / folder / "metrics.jsonl").read_text().splitlines()[-1])["loss"]

    last_loss("parts", "--max-steps", "3", "--resume", "auto")
    assert last_loss("parts", "--resume", "auto") == last_loss("whole")


@pytest.mark.report("R187")
def test_a_run_that_is_out_of_memory_says_so_and_can_go_on(tmp_path: Path) -> None:
    """The third batch asks for 32 TiB."""
    body = SCRIPT.replace(
        "def train_step(model, batch):",
        "def train_step(model, batch, step):\n    torch.empty(2**45 if step == 2 else 1)",
    )
    options = ("--epochs", "2", "--run-dir", str(tmp_path / "run"), "--set", "checkpoint_every=1")
    failed = train(tmp_path, body, *options)
    assert failed.exit_code == 1
    assert f"tried to allocate {2**47} bytes" in failed.stderr
    assert "in train_step" in failed.stderr
    result = train(tmp_path, body.replace("2**45 if step == 2 else 1", "1"), *options, "--resume", "auto", "--json")
    assert result.exit_code == 0, result.output
    whole = train(tmp_path, SCRIPT, "--epochs", "2", "--json")
    assert json.loads(result.stdout)["metrics"] == json.loads(whole.stdout)["metrics"]


@pytest.mark.report("R188")
@pytest.mark.parametrize(
    ("said", "options", "message"),
    [
        ("'precision': 'bfloat'", [], "precision='bfloat'\n  allowed: None or 'bf16' or 'fp16'"),
        ("", ["--set", "precision=bfloat"], "precision='bfloat'\n  allowed: None or 'bf16' or 'fp16'"),
        ("'accumulate_steps': 0", [], "accumulate_steps=0\n  allowed: a whole number >= 1"),
        ("'gradient_clip_nrm': 1.0", [], "write 'gradient_clip_norm'"),
        ("'evaluate_every': 1", [], "evaluate_every=1 without an eval step and data"),
        ("'checkpoint_every': 5", [], "checkpoints without a run_dir"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed_before_anything_is_trained(
    tmp_path: Path, said: str, options: list[str], message: str
) -> None:
    text = SCRIPT.replace('"log_every": 2', said).replace("return (model(batch)", "raise SystemExit  # (")
    result = train(tmp_path, text, "--epochs", "1", *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "epoch 1 begins" not in result.output


DROPS = """
import os, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))
train_data = [torch.full((3, 2), float(i)) for i in range(4)]
def train_step(model, batch, step):
    if step == 5 and (signal := os.environ.pop("END_BY", None)):
        os.kill(os.getpid(), int(signal))
    return model(batch).square().mean()
def optimizers(model): return torch.optim.Adam(model.parameters(), lr=0.1)
settings = {"checkpoint_every": 2, "log_every": 1}
epochs = 2
"""


def check_goes_on(folder: Path) -> None:
    """What was ended in `folder / "parts"` is resumed, and equals a run that was not."""
    for name in ("parts", "whole"):
        result = train(folder, DROPS, "--run-dir", str(folder / name), "--resume", "auto")
        assert result.exit_code == 0, result.output
    parts, whole = (folder / name for name in ("parts", "whole"))
    assert (parts / "metrics.jsonl").read_text() == (whole / "metrics.jsonl").read_text()
    ends = [load(path / "checkpoints" / "step-00000008")["model"] for path in (parts, whole)]
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_stops_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, code: int
) -> None:
    monkeypatch.setenv("END_BY", str(int(number)))
    result = train(tmp_path, DROPS, "--run-dir", str(tmp_path / "parts"), "--resume", "auto")
    assert result.exit_code == code
    said = " ".join(result.stderr.split())
    assert "stopped at epoch 2, step 6: saved in" in said
    assert "step-00000006, from where resume='auto' goes on" in said
    assert "Traceback" not in said
    check_goes_on(tmp_path)


def test_a_run_that_is_stopped_without_a_folder_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("END_BY", str(int(signal.SIGTERM)))
    result = train(tmp_path, DROPS.replace('"checkpoint_every": 2, ', ""))
    assert result.exit_code == 143
    assert "stopped at epoch 2, step 6: nothing is saved, without a run_dir" in " ".join(result.stderr.split())


@pytest.mark.slow
def test_a_killed_script_goes_on_to_the_same_end(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(DROPS)
    code = "from growkit.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", str(script), "--run-dir", str(tmp_path / "parts"), "--resume", "auto"],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "END_BY": str(int(signal.SIGKILL))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert max(path.name for path in (tmp_path / "parts" / "checkpoints").iterdir()) == "step-00000004"
    check_goes_on(tmp_path)
