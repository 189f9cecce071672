"""The engine against a hand-written loop: the same steps of a small Conformer, in one process.

Runs of a few steps take turns, so that both see the same machine. Prints the medians over the turns of (time of the
engine) / (time of the loop), of CPU time and of wall time, with the quartiles. Both end with equal weights, which is
checked. `--json` prints the figures for programs.

    python benchmarks/engine.py [--turns 40] [--steps 20] [--json]
"""

import argparse
import copy
import io
import json
import platform
import statistics
import time

import torch
from rich.console import Console
from torch import nn
from torch.nn import functional as F

from growkit.nn import ConformerClassifier, ConformerEncoder
from growkit.train import Engine, Settings

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def network() -> nn.Module:
    torch.manual_seed(0)
    encoder = ConformerEncoder(input_dim=40, model_dim=64, ffn_dim=256, num_heads=4, num_layers=2, kernel_size=15)
    return ConformerClassifier(encoder, 10)


def batches(count: int) -> list[Batch]:
    torch.manual_seed(1)
    return [(torch.randn(4, 50, 40), torch.full((4,), 50), torch.randint(10, (4,))) for _ in range(count)]


def train_step(model: nn.Module, batch: Batch) -> torch.Tensor:
    frames, lengths, classes = batch
    return F.cross_entropy(model(frames, lengths), classes)


def by_hand(model: nn.Module, optimizer: torch.optim.Optimizer, data: list[Batch]) -> None:
    for batch in data:
        optimizer.zero_grad(set_to_none=True)
        train_step(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def timed(run) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data, model = batches(options.steps), network()
    twin = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(twin.parameters())
    engine = Engine(
        model,
        train_step,
        data,
        optimizers=torch.optim.AdamW(model.parameters()),
        settings=Settings(gradient_clip_norm=1.0),
        console=Console(file=io.StringIO()),
    )
    cpu, wall, steps = [], [], []
    for turn in range(options.turns + 1):
        runs = {
            "engine": lambda epochs=turn + 1: engine.fit(epochs),
            "hand": lambda: by_hand(twin, optimizer, data),
        }
        order = sorted(runs, reverse=bool(turn % 2))
        times = {name: timed(runs[name]) for name in order}
        if turn:  # the first turn warms up
            cpu.append(times["engine"][0] / times["hand"][0])
            wall.append(times["engine"][1] / times["hand"][1])
            steps.append(1000 * times["hand"][0] / options.steps)
    for ours, hers in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, hers), "the engine and the loop trained differently"
    figures = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "step_ms": statistics.median(steps),
        **{name: statistics.quantiles(ratios, n=4) for name, ratios in (("cpu", cpu), ("wall", wall))},
    }
    if options.json:
        print(json.dumps(figures))
        return
    print(f"a step by hand takes {figures['step_ms']:.2f} ms of CPU; {options.turns} turns of {options.steps} steps")
    print("engine / by hand   lower quartile  median  upper quartile")
    for name in ("cpu", "wall"):
        low, middle, high = figures[name]
        print(f"{name:17} {low:15.3f} {middle:7.3f} {high:15.3f}")


if __name__ == "__main__":
    main()
