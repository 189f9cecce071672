"""The code of the README runs as it stands."""

import copy
import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import growkit as gk
from growkit.cli.app import app
from growkit.train import Engine, Settings

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_first_example_is_short_and_keeps_the_function() -> None:
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(lines) <= 15
    names: dict[str, object] = {}
    torch.manual_seed(0)
    exec(BLOCKS[0], names)
    report = names["report"]
    assert isinstance(report, gk.Report)
    assert report.verification is not None
    assert report.verification.max_rel <= 1e-5
    assert report.after.parameters > 2 * report.before.parameters


WIDTHS = {
    "for step, (x, y)": 16,
    "gk.Growth(example_inputs": 32,
    "load_model(fresh": 16,
    "assert_function_preserved": 48,
}
"""Width of the model after the block with this phrase."""


def build_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


class Letters(nn.Module):
    """Scores for the next of five letters, and the state to go on with."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(5, 4), nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 5)

    def forward(self, letters, state=None):
        outputs, state = self.lstm(self.embed(letters), state)
        return self.head(outputs), state


def names_of_sequences() -> dict[str, object]:
    """A recurrent net, and sequences of 60 letters for it: two splits of 25, and one of 10."""
    torch.manual_seed(0)
    texts = [{name: torch.randint(5, (3, 60)) for name in ("letters", "next")} for _ in range(2)]
    return {"rnn": Letters(), "texts": texts, "loss_of": nn.functional.cross_entropy, "torch": torch}


def test_tbptt_with_and_without_growkit_gives_the_same_weights() -> None:
    (with_growkit,) = (block for block in BLOCKS if "truncated_bptt_steps" in block)
    (without,) = (block for block in BLOCKS if "adam.zero_grad()" in block)
    trained = []
    for block in (with_growkit, without):
        names = names_of_sequences() | {"Engine": Engine, "Settings": Settings}
        start = copy.deepcopy(names["rnn"].state_dict())  # type: ignore[attr-defined]
        exec(block.replace("20", "2"), names)
        trained.append(names["rnn"].state_dict())  # type: ignore[attr-defined]
    for name, weight in trained[0].items():
        assert torch.equal(weight, trained[1][name]), name
        assert not torch.equal(weight, start[name]), name


def test_the_script_is_one_for_growkit_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # A run has a folder of its own.
    (script,) = (block for block in BLOCKS if "def get_model" in block)
    (tmp_path / "run.py").write_text(script)
    for line in re.findall(r"^growkit (train run.py .*)$", README, re.MULTILINE):
        options = line.replace("run.py", str(tmp_path / "run.py")).replace("20", "2").split()
        result = CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        printed = json.loads(result.stdout)
        trained = "--explain" not in options
        assert printed["epoch"] == (2 if trained else 1)
        assert printed["parameters"] == (131 if trained else 67)  # 4 * h + h + h * 3 + 3


def test_the_other_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, on one model, with step 1000 brought forward."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    model = build_model()
    batches = [(torch.randn(5, 4), torch.randint(3, (5,))) for _ in range(4)]
    names: dict[str, object] = {
        "torch": torch,
        "gk": gk,
        "model": model,
        "build_model": build_model,
        "optimizer": torch.optim.AdamW(model.parameters()),
        "loss_of": nn.functional.cross_entropy,
        "data": batches,
        "x": batches[0][0],
    } | names_of_sequences()
    for block in BLOCKS[1:]:
        if "build_model" in block:
            names["model"] = build_model()
        exec(block.replace("1000", "2").replace("epochs=20", "epochs=1").replace("range(20)", "range(1)"), names)
        grown = names["model"]
        assert isinstance(grown, nn.Sequential)
        for phrase in [phrase for phrase in WIDTHS if phrase in block]:
            assert grown[0].out_features == WIDTHS.pop(phrase), phrase
    assert not WIDTHS
    assert names["result"] == names["engine"].metrics.evaluation  # type: ignore[attr-defined]
    assert names["result"]["count"] == 20  # type: ignore[index]
    fresh = names["fresh"]
    assert isinstance(fresh, nn.Module)
    assert [tuple(p.shape) for p in fresh.parameters()] == [(16, 4), (16,), (3, 16), (3,)]


def test_the_two_commands() -> None:
    assert "pip install -c constraints.txt '.[plot]' && growkit demo" in README
    assert "pip install -c constraints.txt -e '.[test]' && pytest" in README
