"""Metrics of the engine in TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from growkit.errors import MissingLibraryError
from growkit.train.metrics import Row
from growkit.train.progress import Progress
from growkit.train.ranks import Ranks


class TensorBoard:
    """A callback that writes the rows of `metrics.jsonl` to event files too, and a point at each growth.

    Numbers are kept under their names there, at their `step`; `growth` has the number of parameters after each growth.
    A run that is gone on with goes on in the same folder: what an interrupted one wrote beyond its checkpoint is taken
    back. Rank 0 writes.

    folder: of the event files, one for each run.

    Raises: MissingLibraryError where TensorBoard is not installed.

    >>> engine = Engine(model, train_step, data, optimizers=opt,
    ...                 callbacks=[TensorBoard("runs/first")])  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingLibraryError(
                f"TensorBoard({str(folder)!r}), and no module {error.name}",
                "an environment in which tensorboard is installed",
                "pip install 'growkit[tensorboard]'",
            ) from error
        self.folder = Path(folder)
        self._make_writer = SummaryWriter
        self._writer: Any = None

    def on_fit_start(self, progress: Progress, rows: Sequence[Row]) -> None:
        """Begins a file that goes on behind the present place of the run."""
        if Ranks().own > 0:
            return
        self._close()
        # Readers drop what other files hold from this step on: that is rows which the checkpoint has, and others.
        first = progress.step + (progress.split > 0)
        self._writer = self._make_writer(str(self.folder), purge_step=first)
        for row in rows:
            if row["step"] >= first:
                self.on_row(row)

    def on_row(self, row: Mapping[str, float | int]) -> None:
        """Writes the numbers of a row."""
        if self._writer is not None:
            for name, value in row.items():
                if name != "step":
                    self._writer.add_scalar(name, value, row["step"])
            self._writer.flush()

    def on_growth(self, step: int, parameters: int) -> None:
        """Writes that the model was changed: as a number, since readers do not take texts back."""
        self.on_row({"step": step, "growth": parameters})

    def on_fit_end(self) -> None:
        """Closes the file."""
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
