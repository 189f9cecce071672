"""Scripts: what they must define, and what is taken for a mistake."""

from pathlib import Path

import pytest

from growkit.cli.script import load_script
from growkit.errors import EngineError

COMPLETE = "model = 1\ntrain_step = 2\ntrain_data = 3\noptimizers = 4\n"


def refused(folder: Path, text: str) -> EngineError:
    path = folder / "run.py"
    path.write_text(text)
    with pytest.raises(EngineError) as caught:
        load_script(path)
    return caught.value


def test_names_that_the_engine_knows_are_taken(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("DATA = [1]")
    (tmp_path / "run.py").write_text(COMPLETE + "from beside import DATA\nimport math\nhidden = 7\n_optimizer = 8\n")
    assert load_script(tmp_path / "run.py") == {"model": 1, "train_step": 2, "train_data": 3, "optimizers": 4}


def test_all_missing_names_are_listed_at_once_with_what_they_are(tmp_path: Path) -> None:
    error = refused(tmp_path, "def train_step(model, batch): ...\noptimizer = None\n")
    assert error.given.endswith(
        "does not define get_model, train_data, optimizers; 'optimizer' may be meant as 'optimizers'"
    )
    assert "get_model: a function (*, epoch, step) that returns the model; or `model`" in error.allowed
    assert "train_data: an iterable of batches" in error.allowed


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("setings = {}", "settings"),
        ("train_step_callbck = None", "train_step_callback"),
        ("epoch = 3", "epochs"),
        ("max_step = 3", "max_steps"),
        ("eval_dataset = []", "eval_data"),
    ],
)
def test_names_that_look_misspelt(tmp_path: Path, line: str, meant: str) -> None:
    error = refused(tmp_path, COMPLETE + line)
    assert f"defines {line.split()[0]!r}, close to {meant!r}, which it does not define" in error.given


def test_close_names_beside_the_right_ones_are_ones_own(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(COMPLETE + "optimizer = 5\nmodels = 6\nepochs = 1\nepoch = 2\n")
    assert load_script(tmp_path / "run.py")["epochs"] == 1


def test_two_models(tmp_path: Path) -> None:
    assert "defines model and get_model" in refused(tmp_path, COMPLETE + "get_model = 5").given


def test_two_growths(tmp_path: Path) -> None:
    error = refused(tmp_path, COMPLETE + "services = {'growth': 1}\nexample_inputs = 2")
    assert "defines example_inputs, and services with a 'growth'" in error.given


@pytest.mark.report("R162")
def test_a_setting_at_the_top_level_would_be_ignored(tmp_path: Path) -> None:
    line = "truncated_bptt_steps = 25\n"
    for settings in ("", "settings = {'truncated_bptt_steps': 30}"):
        error = refused(tmp_path, COMPLETE + line + settings)
        assert "defines truncated_bptt_steps at the top level, which sets nothing" in error.given
        assert error.next_step.startswith("write settings = {'truncated_bptt_steps': 25, ...}")
    (tmp_path / "run.py").write_text(COMPLETE + line + "settings = dict(truncated_bptt_steps=truncated_bptt_steps)")
    assert load_script(tmp_path / "run.py")["settings"] == {"truncated_bptt_steps": 25}


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="the script .*missing.py"):
        load_script(tmp_path / "missing.py")
    (tmp_path / "run.txt").write_text("")
    with pytest.raises(EngineError, match=r"a Python file, \*.py"):
        load_script(tmp_path / "run.txt")
