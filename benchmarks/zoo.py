"""Grows every axis of every model of the zoo, and writes what came of it to docs/zoo.md.

    python benchmarks/zoo.py [--jobs 2] [NAME ...]

With names of models, prints their part only.
"""

import argparse
import contextlib
import io
import logging
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from rich.progress import track

from growkit.testing.sweep import refusals, swept, wanted
from growkit.testing.zoo import FOREIGN, ZOO

DOCS = Path(__file__).resolve().parents[1] / "docs" / "zoo.md"

HEAD = """# The zoo: what grows

Small models of the kinds that people have, and what growkit makes of them without a word about their classes. Each
model was built at odd sizes and with sizes that are equal. Each axis was grown alone, or with those it is tied to,
by every method, to a multiple of its size and to none; then many together: the stream x2 and x1.5, heads x2, the
others x1.5. A growth is exact if no output differs by more than 1e-12 of the largest, in float64. This page is
written by `python benchmarks/zoo.py`.

- **axes**: those that a person would want to grow; inputs, outputs, kernels and positions are none
- **grown**: those that grew exactly, alone or with those they are tied to
- **growths**: how many were exact, over all methods and sizes
- **caught**: growths that verification took back; **wrong**: those that nothing would have noticed
"""


class Row:
    """What came of one model, over both choices of sizes."""

    def __init__(self, name: str):
        entry = ZOO[name] if name in ZOO else FOREIGN[name]
        self.name, self.axes, self.grown, self.exact, self.caught, self.wrong = name, 0, 0, 0, 0, 0
        self.refused: dict[str, str] = {}
        for equal_sizes in (False, True):
            with contextlib.redirect_stderr(io.StringIO()):
                sweep = swept(entry, equal_sizes)
            names = {axis.name for axis in wanted(sweep, entry)}
            if not equal_sizes:
                self.axes, self.grown = len(names), len(names & sweep.grown)
            self.exact += len(sweep.of("exact"))
            self.caught += len(sweep.of("caught"))
            self.wrong += len(sweep.of("wrong"))
            self.refused |= refusals(sweep, entry)

    def __str__(self) -> str:
        return f"| {self.name} | {self.axes} | {self.grown} | {self.exact} | {self.caught} | {self.wrong} |"

    def reasons(self) -> str:
        """The refused axes with their reasons, as a list."""
        lines = [f"- `{axis}`: {_plain(reason)}" for axis, reason in self.refused.items()]
        return "\n".join([f"### {self.name}", "", *lines, ""])


def _plain(text: str) -> str:
    return re.sub(r"([*_<>])", r"\\\1", text)


def page(rows: list[Row]) -> str:
    """The whole page."""
    total = [sum(getattr(row, what) for row in rows) for what in ("axes", "grown", "exact", "caught", "wrong")]
    share = 100 * (1 - total[1] / total[0])
    lines = [HEAD, "| model | axes | grown | growths | caught | wrong |", "|---|---|---|---|---|---|"]
    lines += [str(row) for row in rows]
    lines += ["| **all** | " + " | ".join(map(str, total)) + " |", ""]
    lines += [f"{total[0] - total[1]} of {total[0]} axes are refused: {share:.1f} %.", "", "## Refused", ""]
    lines += [row.reasons() for row in rows if row.refused]
    return "\n".join(lines)


def _quiet() -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    names = options.names or [*FOREIGN, *ZOO]
    with ProcessPoolExecutor(options.jobs, initializer=_quiet) as pool:
        rows = list(track(pool.map(Row, names), "growing", len(names)))
    if options.names:
        print(page(rows))
    else:
        DOCS.parent.mkdir(exist_ok=True)
        DOCS.write_text(page(rows))


if __name__ == "__main__":
    main()
