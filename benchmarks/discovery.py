"""Cost of `discover` in forward passes of the same inputs, within one run.

Prints, for GPT-2 of 124M parameters with random weights and for the small models of the zoo, the median over repeats of
(CPU time of discover) / (CPU time of a forward pass), interleaved, on one thread. `--json` prints the figures for
programs.

    python benchmarks/discovery.py [--repeats 5] [--only NAME ...] [--json]
"""

import argparse
import json
import logging
import platform
import statistics
import time
from typing import Any

import torch
import transformers
from torch import nn

import growkit as gk
from growkit.discovery.inputs import run_model
from growkit.testing.zoo import FOREIGN, ZOO

LARGE = "GPT-2, 124M"
LIMIT = 20
"""Forward passes of a small model that discovery shall cost at most."""


def large() -> tuple[nn.Module, Any]:
    """GPT-2 at its smallest published size, and 128 tokens."""
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    return model, gk.Inputs(torch.randint(0, 50257, (1, 128)), use_cache=False)


def cost(model: nn.Module, inputs: Any, repeats: int) -> dict[str, float]:
    """Median ratio to a forward pass, and the median milliseconds of both."""
    ratios, forwards, discoveries = [], [], []
    for _ in range(repeats + 1):
        start = time.process_time()
        with torch.no_grad():
            run_model(model, inputs, None)
        middle = time.process_time()
        gk.discover(model, inputs)
        end = time.process_time()
        forwards.append(1000 * (middle - start))
        discoveries.append(1000 * (end - middle))
        ratios.append((end - middle) / (middle - start))
    medians = [statistics.median(values[1:]) for values in (ratios, forwards, discoveries)]
    return dict(zip(("times_forward", "forward_ms", "discover_ms"), medians, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[LARGE, *ZOO, *FOREIGN], metavar="NAME")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    rows = []
    for name in options.only:
        model, inputs = large() if name == LARGE else (ZOO[name] if name in ZOO else FOREIGN[name]).make()
        rows.append({"model": name, **cost(model, inputs, options.repeats)})
    result = {"torch": torch.__version__, "machine": platform.processor() or platform.machine(), "rows": rows}
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"torch {result['torch']}, {result['machine']}, one thread; discover in forward passes of the same inputs")
    small = [row["times_forward"] for row in rows if row["model"] != LARGE]
    for row in rows:
        milliseconds = f"forward {row['forward_ms']:9.2f} ms   discover {row['discover_ms']:9.2f} ms"
        print(f"{row['model']:56} {row['times_forward']:7.1f} x   {milliseconds}")
    if small:
        mean, most, over = statistics.geometric_mean(small), max(small), sum(cost > LIMIT for cost in small)
        print(f"small models: geometric mean {mean:.1f} x, most {most:.1f} x, {over} of {len(small)} above {LIMIT} x")


if __name__ == "__main__":
    main()
