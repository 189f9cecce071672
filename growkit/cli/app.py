"""The command line: `growkit demo`, `growkit train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from growkit.cli.demo import check_options, prepare_folder, run_demo
from growkit.cli.recipe import Recipe
from growkit.cli.train import TrainOptions, run_script
from growkit.errors import SettingsError

app = typer.Typer(help="Makes networks wider and deeper while they train.", no_args_is_help=True, add_completion=False)

RECIPE = Recipe()


@app.callback()
def growkit() -> None:
    """Makes networks wider and deeper while they train."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for models, plans, demo.json, loss.png.")] = Path("demo-run"),
    seed: Annotated[int, typer.Option(help="Of weights, data order, noise and dropout.")] = 0,
    device: Annotated[str, typer.Option(metavar="cpu|cuda", help="Where to train.")] = "cpu",
    steps: Annotated[int, typer.Option(help="Training steps; the schedule is scaled to them.")] = RECIPE.steps,
    as_json: Annotated[bool, typer.Option("--json", help="Print the content of demo.json, and nothing else.")] = False,
) -> None:
    """A small Conformer learns to tell nine speakers apart, and grows while it does.

    Two others train beside it, for comparison: the small one, which never grows, and one of the final size.
    """
    try:
        check_options(RECIPE, device=device, steps=steps, seed=seed)
        prepare_folder(out)
    except SettingsError as error:
        typer.echo(f"growkit demo: {error.given}; allowed: {error.allowed}; {error.next_step}", err=True)
        raise typer.Exit(2) from error
    text = run_demo(RECIPE.scaled(steps), out, seed=seed, device=device, console=Console(quiet=as_json))
    if as_json:
        typer.echo(text)


@app.command()
def train(
    script: Annotated[Path, typer.Argument(help="Python file that defines get_model, train_step, train_data, ...")],
    epochs: Annotated[int | None, typer.Option(min=0, help="Epochs in all, before those of the script.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=0, help="Batches in all, before those of the script.")] = None,
    run_dir: Annotated[Path | None, typer.Option(help="Folder for metrics.jsonl, before that of the script.")] = None,
    resume: Annotated[
        str | None, typer.Option(help="auto: from the newest checkpoint in run_dir; or the folder of a checkpoint.")
    ] = None,
    assigned: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print loops and settings, and train nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
) -> None:
    """Trains what a script defines, as a RETURNN config does: get_model, train_step, train_data, optimizers.

    It may define settings, callbacks, train_step_callback, train_epoch_callback, eval_step, eval_data, services,
    example_inputs (for growth), runtime, loops, flow, stateful, epochs, max_steps
    and run_dir too.
    """
    options = TrainOptions(epochs, max_steps, run_dir, resume, assigned or (), explain, as_json)
    if code := run_script(script, options):
        raise typer.Exit(code)


def main() -> None:
    """The program `growkit`."""
    app()
