"""What a run of the demo writes, rebuilt and computed again from its files."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_model
from torch import nn

import growkit as gk
from growkit.cli.demo import one_thread, prepare_folder
from growkit.cli.flops import step_flops
from growkit.cli.recipe import Recipe, Sizes
from growkit.cli.stages import evaluation_loss
from growkit.cli.training import accuracy
from growkit.cli.vowels import load_vowels
from growkit.errors import SettingsError
from tests.cli.conftest import DemoRun, run_demo

FILES_OF_A_GROWTH = ("before.safetensors", "after.safetensors", "plan.json")


def rebuilt(run: DemoRun, growths: int, weights: Path) -> nn.Module:
    """The network after so many growths, from the sizes in `demo.json`, the plans, and a file of weights."""
    model = Sizes(**run.results["sizes"]).build()
    for folder in sorted((run.out / "growths").iterdir())[:growths]:
        gk.grow(model, gk.Plan.from_json((folder / "plan.json").read_text()))
    load_model(model, str(weights))
    return model.eval()


def test_every_growth_keeps_the_function_in_float64(demo_run: DemoRun) -> None:
    data = load_vowels().test
    folders = sorted((demo_run.out / "growths").iterdir())
    assert [folder.name for folder in folders] == ["1-width", "2-width", "3-depth"]
    for number, folder in enumerate(folders):
        before = rebuilt(demo_run, number, folder / "before.safetensors").double()
        after = rebuilt(demo_run, number + 1, folder / "after.safetensors").double()
        with torch.no_grad():
            old, new = (model(data.features.double(), data.lengths) for model in (before, after))
        assert float((old - new).abs().max() / old.abs().max()) <= 1e-12
        record = demo_run.results["growths"][number]
        counts = [sum(p.numel() for p in model.parameters()) for model in (before, after)]
        assert counts == [record["parameters_before"], record["parameters_after"]]


def test_losses_are_those_of_the_saved_models_on_one_batch(demo_run: DemoRun) -> None:
    data = load_vowels().test
    batch = data.batch(torch.arange(0, 370, 12))
    for number, folder in enumerate(sorted((demo_run.out / "growths").iterdir())):
        record = demo_run.results["growths"][number]
        before = evaluation_loss(rebuilt(demo_run, number, folder / "before.safetensors"), batch)
        after = evaluation_loss(rebuilt(demo_run, number + 1, folder / "after.safetensors"), batch)
        assert [record["loss_before"], record["loss_after"]] == pytest.approx([before, after], rel=1e-6)
        assert before == pytest.approx(after, rel=1e-5)


def test_the_model_in_the_end_has_the_accuracy_reported(demo_run: DemoRun) -> None:
    model = rebuilt(demo_run, 3, demo_run.out / "model.safetensors")
    assert accuracy(model, load_vowels().test, torch.device("cpu")) == demo_run.results["test_accuracy"]


def test_results(demo_run: DemoRun) -> None:
    results = demo_run.results
    assert [(g["step"], g["kind"]) for g in results["growths"]] == [(1, "width"), (2, "width"), (3, "depth")]
    for growth in results["growths"]:
        assert 0 <= growth["max_rel_deviation"] <= 1e-5
    assert (results["seed"], results["steps"], results["device"]) == (3, 8, "cpu")
    for name in ("test_accuracy", "ungrown_test_accuracy", "scratch_test_accuracy"):
        assert 0 <= results[name] <= 1
    # The last step is the one that reaches the FLOPs of the grown run; a step on the longest utterances costs most.
    surplus = results["scratch_training_flops"] - results["training_flops"]
    longest = load_vowels().train.batch(torch.arange(16))
    longest = longest._replace(features=torch.zeros(16, 29, 12))
    assert 0 <= surplus < step_flops(Recipe().from_scratch().sizes.build(), longest)
    assert results["scratch_steps"] < 8
    assert results["seconds"] > 0
    assert results["versions"]["torch"] == torch.__version__


def test_files(demo_run: DemoRun) -> None:
    names = {path.relative_to(demo_run.out).as_posix() for path in demo_run.out.rglob("*") if path.is_file()}
    growths = {f"growths/{g}/{f}" for g in ("1-width", "2-width", "3-depth") for f in FILES_OF_A_GROWTH}
    metrics = {"metrics.jsonl", "ungrown/metrics.jsonl", "scratch/metrics.jsonl"}
    assert names == growths | metrics | {"demo.json", "loss.png", "model.safetensors"}


def test_a_second_run_is_the_same_and_replaces_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one without matplotlib, which a line says."""
    first = run_demo(tmp_path, "--steps", "6")
    assert "matplotlib" not in first.stdout
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    again = run_demo(tmp_path, "--steps", "6")
    assert "No loss.png, since matplotlib is missing: pip install matplotlib" in again.stdout.splitlines()
    assert not (tmp_path / "loss.png").exists()
    for run in (first, again):
        del run.results["seconds"]
    assert first.results == again.results
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 6


def test_only_files_of_the_demo_are_removed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "demo.json").write_text("{}")
    prepare_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo.json").mkdir()
    with pytest.raises(SettingsError, match="where nothing can be written"):
        prepare_folder(tmp_path)


def test_threads_are_restored_whatever_happens() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with suppress(KeyError), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_the_whole_demo_learns(tmp_path: Path) -> None:
    results = run_demo(tmp_path).results
    assert results["test_accuracy"] >= 0.93
    assert results["test_accuracy"] >= results["ungrown_test_accuracy"] + 0.05
    assert max(growth["max_rel_deviation"] for growth in results["growths"]) <= 1e-5


@pytest.mark.gpu
def test_on_a_gpu(tmp_path: Path) -> None:
    results = run_demo(tmp_path, "--steps", "6", "--device", "cuda").results
    assert results["device"] == "cuda"
    assert [growth["kind"] for growth in results["growths"]] == ["width", "width", "depth"]
    assert max(growth["max_rel_deviation"] for growth in results["growths"]) <= 1e-5
