"""Showing how far a run is: bars in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from growkit.train.progress import Progress


class Display(Protocol):
    """What the engine tells whoever is watching."""

    def start(self, progress: Progress, *, epochs: int | None, max_steps: int | None) -> None:
        """A fit begins, up to these limits."""

    def batch_done(self, progress: Progress, epoch_length: int | None) -> None:
        """A batch is done; `progress` names the next one."""

    def row(self, row: Mapping[str, float | int]) -> None:
        """A row of metrics was logged."""

    def message(self, text: str) -> None:
        """Something happened that is worth a line."""

    def evaluation(self, length: int | None) -> AbstractContextManager[Callable[[], None]]:
        """An evaluation over so many batches goes on inside the context; what it gives is called after each."""

    def evaluated(self, row: Mapping[str, float | int]) -> None:
        """A row of an evaluation was logged."""

    def stop(self) -> None:
        """The fit ended, or was interrupted."""


def make_display(console: Console) -> Display:
    """Bars where the console is a terminal, plain lines elsewhere."""
    return BarDisplay(console) if console.is_terminal else LineDisplay(console)


class LineDisplay:
    """One plain line per row of metrics and per message."""

    def __init__(self, console: Console):
        self._console = console

    def start(self, progress: Progress, *, epochs: int | None, max_steps: int | None) -> None:
        """Prints nothing."""

    def batch_done(self, progress: Progress, epoch_length: int | None) -> None:
        """Prints nothing."""

    def row(self, row: Mapping[str, float | int]) -> None:
        """Prints the row."""
        self.message(row_text(row))

    def message(self, text: str) -> None:
        """Prints the text, without markup and unwrapped."""
        _print(self._console, text)

    @contextmanager
    def evaluation(self, length: int | None) -> Iterator[Callable[[], None]]:
        """Prints nothing."""
        yield lambda: None

    def evaluated(self, row: Mapping[str, float | int]) -> None:
        """Prints the row."""
        self.message(row_text(row))

    def stop(self) -> None:
        """Prints nothing."""


class BarDisplay:
    """A bar for the whole fit, one for the epoch, one for evaluations; messages scroll by above them."""

    def __init__(self, console: Console):
        self._console = console
        self._bars: Bars | None = None
        self._fit = self._epoch = TaskID(0)
        self._evaluation: TaskID | None = None
        self._by_steps = False
        self._shown_epoch = self._in_epoch = 0

    def start(self, progress: Progress, *, epochs: int | None, max_steps: int | None) -> None:
        """Shows the bars: the upper one counts steps if they are limited, else epochs."""
        self._bars = _bars(self._console)
        self._by_steps = max_steps is not None
        done = progress.step if self._by_steps else progress.epoch - 1
        total = max_steps if self._by_steps else epochs
        self._fit = self._bars.add_task("steps" if self._by_steps else "epochs", total=total, completed=done, text="")
        self._epoch = self._bars.add_task(f"epoch {progress.epoch}", total=None, completed=progress.batch, text="")
        self._shown_epoch, self._in_epoch = progress.epoch, progress.batch
        self._bars.start()

    def batch_done(self, progress: Progress, epoch_length: int | None) -> None:
        """Moves the bars."""
        if self._bars is None:
            return
        self._bars.update(self._fit, completed=progress.step if self._by_steps else progress.epoch - 1)
        if progress.last_epoch != self._shown_epoch:
            self._shown_epoch = progress.last_epoch
            self._bars.reset(self._epoch, description=f"epoch {self._shown_epoch}", text="")
        # A finished epoch stays full until the first batch of the next one is done.
        self._in_epoch = progress.batch or self._in_epoch + 1
        total = epoch_length if progress.batch else self._in_epoch
        self._bars.update(self._epoch, completed=self._in_epoch, total=total)

    def row(self, row: Mapping[str, float | int]) -> None:
        """Shows the means beside the upper bar."""
        means = {name.removesuffix("_mean"): value for name, value in row.items() if name.endswith("_mean")}
        if self._bars is not None:
            self._bars.update(self._fit, text=row_text(means))

    def message(self, text: str) -> None:
        """Prints a line above the bars."""
        _print(self._console, text)

    @contextmanager
    def evaluation(self, length: int | None) -> Iterator[Callable[[], None]]:
        """A bar below the others, or alone where nothing is being fitted."""
        alone = self._bars is None
        bars = self._bars = self._bars or _bars(self._console)
        if self._evaluation is None:
            self._evaluation = bars.add_task("evaluation", total=length, text="")
        bars.reset(self._evaluation, total=length)
        task = self._evaluation
        try:
            bars.start()
            yield lambda: bars.advance(task)
        finally:
            if alone:
                self.stop()

    def evaluated(self, row: Mapping[str, float | int]) -> None:
        """Prints the row above the bars."""
        self.message(row_text(row))

    def stop(self) -> None:
        """Leaves the bars as they are and gives the terminal back."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = self._evaluation = None


def _bars(console: Console) -> Bars:
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
        console=console,
        # Output that goes to a file must not end up in the terminal.
        redirect_stdout=sys.stdout.isatty(),
    )


def row_text(row: Mapping[str, float | int]) -> str:
    """Names and values on one line; four significant digits for what is not whole."""
    return "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()
    )


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
