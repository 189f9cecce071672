"""The demo: a network that grows while it learns, beside two that do not."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from rich.console import Console
from safetensors.torch import save_model

from growkit.cli.plot import plot_losses
from growkit.cli.recipe import Recipe, Stage
from growkit.cli.stages import GrowInStages, GrowthRecord
from growkit.cli.tables import closing_table, growth_table
from growkit.cli.training import Bench, train
from growkit.cli.vowels import load_vowels
from growkit.errors import SettingsError
from growkit.growth.report import Report

DEVICES = ("cpu", "cuda")


def check_options(recipe: Recipe, *, device: str, steps: int, seed: int) -> None:
    """Refuses what the demo cannot run.

    Raises:
        SettingsError: an unknown or absent device, too few steps, a negative seed.
    """
    if device not in DEVICES:
        raise SettingsError(f"--device {device}", " or ".join(DEVICES), "choose one of them")
    if device == "cuda" and not torch.cuda.is_available():
        raise SettingsError("--device cuda, but torch finds no CUDA device", "cpu on this machine", "use --device cpu")
    if steps < recipe.least_steps:
        raise SettingsError(
            f"--steps {steps}", f"a whole number >= {recipe.least_steps}", "give each growth steps before and after it"
        )
    if not 0 <= seed < 2**32:
        raise SettingsError(f"--seed {seed}", "a whole number from 0 to 2**32 - 1", "give another one")


def prepare_folder(out: Path) -> None:
    """Makes the folder of a run, and removes what an earlier run left there.

    Raises:
        SettingsError: nothing can be written there.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK | os.X_OK):
            raise PermissionError(f"no permission to write into {str(out)!r}")
        for name in ("demo.json", "loss.png", "metrics.jsonl", "ungrown/metrics.jsonl", "scratch/metrics.jsonl"):
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(
            f"--out {out}, where nothing can be written ({error.strerror or error})", "a folder", "name another one"
        ) from error


def run_demo(recipe: Recipe, out: Path, *, seed: int, device: str, console: Console) -> str:
    """Trains the three networks, shows them on the console, writes all files; gives the text of `demo.json`.

    `out` is as `prepare_folder` leaves it.
    """
    start = time.perf_counter()
    bench = Bench(load_vowels(), seed, torch.device(device), console)

    def show(stage: Stage, record: GrowthRecord, report: Report) -> None:
        console.print(growth_table(stage, record, report))

    def heading(text: str) -> None:
        console.print(f"\n{text}", style="bold", highlight=False)

    growths = GrowInStages(recipe.stages, bench.fixed_batch, out / "growths", show)
    # TensorFloat-32 would round more coarsely than a deviation of 1e-5 can show.
    with one_thread(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        console.print("Which of nine speakers is it? 270 utterances to learn from, 370 to test.", highlight=False)
        heading("1 of 3  a small Conformer, which grows while it trains")
        grown = train(bench, recipe, out, growths)
        save_model(grown.model, str(out / "model.safetensors"))
        heading("2 of 3  the same small Conformer, which stays as it is, for as many steps")
        ungrown = train(bench, recipe.ungrown(), out / "ungrown")
        heading("3 of 3  one of the final size from the start, for as many training FLOPs")
        final = recipe.from_scratch()
        batches = bench.all_batches(recipe.batch_size)
        scratch_steps = bench.flops.steps_worth(grown.training_flops, final.sizes.build().to(device), batches)
        scratch = train(bench, final.scaled(scratch_steps), out / "scratch")
    runs = {"grown while it trained": grown, "small, never grown": ungrown, "final size, from scratch": scratch}
    drawn = plot_losses(out / "loss.png", {title: run.losses for title, run in runs.items()}, recipe.stages)
    results = {
        "seed": seed,
        "device": device,
        "steps": recipe.steps,
        "sizes": asdict(recipe.sizes),
        "growths": [asdict(record) for record in growths.records],
        "parameters": grown.parameters,
        "test_accuracy": grown.test_accuracy,
        "ungrown_test_accuracy": ungrown.test_accuracy,
        "scratch_test_accuracy": scratch.test_accuracy,
        "training_flops": grown.training_flops,
        "scratch_training_flops": scratch.training_flops,
        "scratch_steps": scratch.steps,
        "seconds": round(time.perf_counter() - start, 1),
        "versions": versions(),
    }
    text = json.dumps(results, indent=2)
    (out / "demo.json").write_text(text + "\n", encoding="utf-8")
    console.print()
    console.print(closing_table(runs))
    if not drawn:
        console.print("No loss.png, since matplotlib is missing: pip install matplotlib", markup=False)
    console.print(
        f"{results['seconds']} seconds. Models, plans and demo.json are in {out}", markup=False, highlight=False
    )
    return text


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, inside the block: more of them only slow networks as small as these down."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def versions() -> dict[str, str]:
    """Of growkit, torch and Python."""
    try:
        own = version("growkit")
    except PackageNotFoundError:
        own = "not installed"
    return {"growkit": own, "torch": torch.__version__, "python": platform.python_version()}
