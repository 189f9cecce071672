"""`growkit train`: runs a script through the engine."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from growkit.cli.script import load_script, make_engine
from growkit.cli.script_settings import COMMAND_LINE, DEFAULT, SCRIPT, effective_settings
from growkit.errors import EngineError, GrowkitError
from growkit.train import Engine, Settings
from growkit.train.stopping import Terminated

FAILED, REFUSED = 1, 2
"""Exit codes: the script raised, or training did; the command, or what the script defines, was refused."""


@dataclass(frozen=True)
class TrainOptions:
    """What the command line says; None is left to the script."""

    epochs: int | None = None
    max_steps: int | None = None
    run_dir: Path | None = None
    resume: str | None = None
    assigned: Sequence[str] = ()
    explain: bool = False
    as_json: bool = False


def run_script(path: Path, options: TrainOptions) -> int:
    """Trains what the script defines; gives the exit code."""
    # What is for programs is alone on standard output.
    with redirect_stdout(sys.stderr) if options.as_json else nullcontext():
        try:
            names = load_script(path)
            settings, sources = effective_settings(names.get("settings"), options.assigned)
            limits = {name: _limit(name, names.get(name), getattr(options, name)) for name in ("epochs", "max_steps")}
            if limits["epochs"] is None and limits["max_steps"] is None:
                raise EngineError(
                    f"neither epochs nor max_steps, in {path} or on the command line",
                    "how long to train",
                    "write epochs = 20 in the script, or --epochs 20",
                )
            run_dir = options.run_dir or names.get("run_dir")
            engine = make_engine(names, settings, run_dir=None if run_dir is None else Path(run_dir))
        except GrowkitError as error:
            print(f"growkit train: {error}", file=sys.stderr)
            return REFUSED
        except (Exception, SystemExit) as error:
            return _failed(error, path)
        rows = _rows(settings, sources)
        rows += [(name, value, _source(getattr(options, name))) for name, value in limits.items() if value is not None]
        if run_dir is not None:
            rows.append(("run_dir", str(run_dir), _source(options.run_dir)))
        if options.explain:
            engine.explain()
        print(_text(rows if options.explain else [row for row in rows if row[2] != DEFAULT]))
        if not options.explain:
            try:
                engine.fit(limits["epochs"], max_steps=limits["max_steps"], resume=options.resume)
            except Terminated as error:
                return int(error.code or FAILED)
            except (Exception, SystemExit) as error:
                return _failed(error, path)
    if options.as_json:
        print(json.dumps(_for_programs(engine, rows), default=repr))
    return 0


def _limit(name: str, said: object, asked: int | None) -> int | None:
    """The command line's, else the script's."""
    if said is not None and (not isinstance(said, int) or isinstance(said, bool) or said < 0):
        raise EngineError(f"{name} = {said!r} in the script", "a whole number >= 0", "give an int")
    return said if asked is None else asked


def _source(asked: object) -> str:
    return SCRIPT if asked is None else COMMAND_LINE


Row = tuple[str, object, str]
"""Name, value in force, where it comes from."""


def _rows(settings: Settings, sources: dict[str, str]) -> list[Row]:
    return [
        (name, settings.user[name] if name in settings.user else getattr(settings, name), source)
        for name, source in sources.items()
    ]


def _text(rows: Sequence[Row]) -> str:
    width = max((len(name) for name, _, _ in rows), default=0)
    return "\n".join(f"{name:{width}}  {value!r} ({source})" for name, value, source in rows)


def _for_programs(engine: Engine, rows: Sequence[Row]) -> dict[str, object]:
    return {
        "settings": {name: {"value": value, "from": source} for name, value, source in rows},
        "epoch": engine.progress.last_epoch,
        "step": engine.progress.step,
        "updates": engine.progress.updates,
        "parameters": engine.runtime.parameter_count(),
        "metrics": engine.history[-1] if engine.history else {},
        "evaluation": engine.metrics.evaluation,
    }


def _failed(error: BaseException, path: Path) -> int:
    """Shows the traceback from the script's own first line on."""
    files = {str(path), str(path.resolve())}
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename not in files:
        frames = frames.tb_next
    if isinstance(error, SyntaxError) and frames is None:
        traceback.print_exception(error.with_traceback(None))
    else:
        traceback.print_exception(error.with_traceback(frames or error.__traceback__))
    return FAILED
