"""The code of the README runs as it stands."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import growkit as gk

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
    }
    for block in BLOCKS[1:]:
        if "build_model" in block:
            names["model"] = build_model()
        exec(block.replace("1000", "2").replace("epochs=20", "epochs=1"), names)
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
