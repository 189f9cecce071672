"""What two processes do in test_ranks.py: `python -m tests.end_to_end.rank_scenarios NAME RANK STORE OUT`."""

from __future__ import annotations

import copy
import gc
import json
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel as Ddp

import growkit as gk
from growkit.errors import GrowkitError
from growkit.train import Runtime, Settings, StepCallbackReturn
from tests.end_to_end.rank_runs import (
    RANKS,
    Net,
    adam,
    data,
    data_parallel,
    of_all,
    reading,
    shard,
    sharded,
    step,
    train,
)


def disagreements(rank: int, *names: str) -> dict[str, Any]:
    """The error that each of these gives on this rank; all ranks raise at once, so that the next one can begin."""
    odd = rank == 1

    def one_grows(step: int, growth: gk.Growth) -> Any:
        return growth.request("wide", widen={"blocks.0.up.weight[0]": 2.0}) if step == 1 and not odd else None

    def other_plan(step: int, growth: gk.Growth) -> Any:
        return growth.request("wide", widen={"blocks.0.up.weight[0]": 8 + rank}) if step == 1 else None

    def other_update(step: int) -> Any:
        return StepCallbackReturn(config_updates={"learning_rate": 0.1 + rank}) if step == 2 else None

    def raises(step: int) -> None:
        if step == 2 and odd:
            raise ValueError("disk full")

    def other_model(step: int, model: nn.Module) -> Any:
        new = copy.deepcopy(model)
        new.added = nn.ParameterList([nn.Parameter(torch.zeros(1 + rank).double())])
        return StepCallbackReturn(updated_model=new, optimizer_state="reset") if step == 1 else None

    def thaws(step: int, model: Net) -> None:
        if step == 1 and odd:
            model.gain.requires_grad_(True)

    class HookRaises:
        def on_epoch_end(self) -> None:
            raises(2)

    def broken_data() -> Any:
        yield from data(rank, 2)
        raises(2)
        yield from data(rank, 1)

    given: dict[str, dict[str, Any]] = {
        "one grows": {"callbacks": [one_grows]},
        "other plan": {"callbacks": [other_plan]},
        "other update": {"callbacks": [other_update]},
        "raises": {"callbacks": [raises]},
        "hook raises": {"callbacks": [HookRaises()]},
        "other model": {"callbacks": [other_model]},
        "thaws": {"callbacks": [thaws], "optimizers": of_all},
        "uneven data": {"train_data": data(rank, 8 - 3 * rank), "callbacks": []},
        "broken data": {"train_data": broken_data, "callbacks": []},
        "other settings": {"settings": Settings(gradient_clip_norm=1.0 + rank)},
        "other optimizer": {"optimizers": adam if odd else of_all},
        "other splits": {},
        "uneven evaluation": {
            "callbacks": [],
            "settings": Settings(evaluate_every=1),
            "eval_step": lambda model, batch: {"loss": step(model, batch).item()},
            "eval_data": data(rank, 3 - rank),
        },
    }

    def error(name: str) -> str:
        with_default = given[name]
        if name == "other splits":
            with_default = reading(rank)
            with_default["train_data"] = [
                {key: value[:, : 7 - 2 * rank] for key, value in batch.items()} for batch in with_default["train_data"]
            ]
        try:
            if name == "uneven evaluation":  # A sharded model computes on all ranks together.
                runtime = Runtime(shard=shard)
            else:
                runtime = Runtime(wrap=lambda model: Ddp(model, find_unused_parameters=True))
            train(rank, runtime, **with_default)
        except GrowkitError as raised:
            return f"{type(raised).__name__}: {raised}"
        return "no error"

    return {name: error(name) for name in names}


def failing(rank: int) -> dict[str, Any]:
    """The error of a run in which the train step of rank 1 raises, and what is noted on it."""

    def full(model: nn.Module, batch: Any, **given: Any) -> torch.Tensor:
        if given["step"] == 3 and rank == 1:
            raise ValueError("disk full")
        return step(model, batch)

    try:
        train(rank, Runtime(wrap=Ddp), train_step=full, callbacks=[])
    except (ValueError, RuntimeError) as error:
        return {"said": str(error), "noted": error.__notes__}
    return {}


def resumed(rank: int, folder: str, *names: str) -> dict[str, Any]:
    """Whether runs that go on from checkpoints, inside and between windows and growths, end as the whole one does."""

    def run(name: str, run_dir: Path, resume: Path | None = None) -> dict[str, Any]:
        runtime = Runtime(shard=shard) if name == "sharded" else Runtime(wrap=Ddp)
        settings = Settings(accumulate_steps=2, checkpoint_every=1, keep_last=None)
        result = train(rank, runtime, settings=settings, run_dir=run_dir, resume=resume)
        return {"weights": result["weights"], "slots": result["slots"], "end": result["digests"][-1]}

    ends = {}
    for name in names:
        whole_dir = Path(folder) / name
        whole = run(name, whole_dir)
        saved = {step: whole_dir / "checkpoints" / f"step-{step:08d}" for step in (1, 3, 4, 7, 9)}
        ends[name] = {step: run(name, Path(folder) / f"{name} {step}", path) == whole for step, path in saved.items()}
    return ends


SCENARIOS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "data_parallel": data_parallel,
    "sharded": sharded,
    "disagreements": disagreements,
    "resumed": resumed,
    "failing": failing,
}


def main(scenario: str, rank: str, store: str, out: str, *names: str) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=int(rank), world_size=RANKS, timeout=timedelta(seconds=30)
    )
    torch.set_num_threads(1)
    result = SCENARIOS[scenario](int(rank), *names)
    Path(out).write_text(json.dumps(result))
    # errors hold their frames in circles, and with them wrappers whose threads may not outlive the interpreter
    gc.collect()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
