"""Growth against copying the same bytes, within one run.

Prints, for each case, the median over repeats of (time of the growth) / (time of copying the grown result into memory
that is there already), interleaved. `--json` prints the figures for programs.

    python benchmarks/kernels.py [--repeats 15] [--json]
"""

import argparse
import json
import platform
import statistics
import time
from functools import partial

import torch
from torch import Tensor

from growkit.axes.layouts import Layout
from growkit.growth.edits import edit
from growkit.kernels import apply
from growkit.maps.lifting import DimMap, GrownAxis, lift
from growkit.maps.methods.table import method
from growkit.optim.adam import ADAMW
from growkit.optim.remap import remap_state

Dims = list[DimMap | None]


def dims(text: str, sizes: dict[str, int], grown: dict[str, tuple[int, str]]) -> Dims:
    axes = {
        axis: GrownAxis(method(how).make(sizes[axis], new, "benchmark"), method(how))
        for axis, (new, how) in grown.items()
    }
    return [lift(dim, sizes, axes) for dim in Layout.parse(text).dims]


def grown_by_kernel(old: Tensor, lifted: Dims) -> Tensor:
    return apply(old, [d and (d.source, d.value) for d in lifted])


def ratio(grow, like: Tensor, repeats: int) -> tuple[float, float]:
    """Median ratio to a copy, and the median milliseconds of the growth."""
    target = torch.empty_like(like)
    ratios, times = [], []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        grow()
        middle = time.perf_counter()
        target.copy_(like)
        end = time.perf_counter()
        ratios.append((middle - start) / (end - middle))
        times.append(1000 * (middle - start))
    return statistics.median(ratios[1:]), statistics.median(times[1:])


def cases() -> list[tuple[str, Tensor, Dims]]:
    weight = "hidden:produces stream:consumes"
    sizes = {"hidden": 4096, "stream": 1024}
    square = torch.randn(4096, 1024)
    return [
        (f"4096x1024, {name}", square, dims(weight, sizes, grown))
        for name, grown in {
            "hidden x2 copy": {"hidden": (8192, "copy")},
            "stream x2 copy": {"stream": (2048, "copy")},
            "both x2 copy": {"hidden": (8192, "copy"), "stream": (2048, "copy")},
            "hidden x1.5 fresh": {"hidden": (6144, "fresh")},
            "hidden x1.5 net2net": {"hidden": (6144, "net2net")},
            "stream x1.5 net2net": {"stream": (1536, "net2net")},
        }.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, old, lifted in cases():
        layout = Layout.parse("hidden:produces stream:consumes")
        whole = edit("weight", old, layout, lifted, "0/0")
        new = whole.value(old)
        state = {"step": torch.tensor(3.0), "exp_avg": old, "exp_avg_sq": old.square()}
        group = {"weight_decay": 0.01}
        for what, run, like in (
            ("kernel", partial(grown_by_kernel, old, lifted), new),
            ("parameter with draws", partial(whole.value, old), new),
            ("AdamW slots", partial(remap_state, state, group, ADAMW, lifted), torch.stack([new, new])),
        ):
            times_copy, milliseconds = ratio(run, like, options.repeats)
            rows.append({"case": name, "what": what, "times_copy": times_copy, "milliseconds": milliseconds})
    result = {"torch": torch.__version__, "machine": platform.processor() or platform.machine(), "rows": rows}
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"torch {result['torch']}, {result['machine']}, one thread; times a copy of the grown bytes")
    for row in rows:
        print(f"{row['case']:32} {row['what']:22} {row['times_copy']:7.2f} x   {row['milliseconds']:8.2f} ms")


if __name__ == "__main__":
    main()
