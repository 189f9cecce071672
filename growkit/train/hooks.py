"""Points of a run at which callbacks only look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from growkit.errors import EngineError
from growkit.train.arguments import SignatureCall

HOOKS: Mapping[str, tuple[str, ...]] = {
    "on_fit_start": ("rows",),
    "on_fit_end": (),
    "on_epoch_end": (),
    "on_train_step_end": ("batch",),
    "on_row": ("row",),
    "on_evaluation_end": ("results",),
    "on_checkpoint": ("path",),
    "on_growth": ("parameters_before", "parameters"),
}
"""Names of the methods, and what each gets beside what epoch callbacks get."""


class Hooks:
    """The methods of callback objects that are called `on_...`, in the order of the objects.

    on_fit_start, on_fit_end: around `fit`; the latter also where the run was stopped, not after an exception.
        `rows`: the metrics of the run so far, also of one that is gone on with.
    on_train_step_end: after each batch; `epoch`, `step` and `batch` are those of this batch.
    on_epoch_end: after the last batch of an epoch, before its evaluation; `epoch` is that epoch.
    on_row: `row`, metrics as they are written to `metrics.jsonl`, of steps or of an evaluation.
    on_evaluation_end: `results`, the numbers by name.
    on_checkpoint: a checkpoint is complete; `path`, its folder.
    on_growth: the model was changed; `parameters_before` and `parameters`, their numbers of entries.

    A hook returns nothing and changes neither model nor settings: that is for `train_step_callback` and
    `train_epoch_callback`.

    Raises: EngineError for a method that begins with `on_` and is none of these.
    """

    def __init__(self, callbacks: Sequence[object], offered: Iterable[str]):
        offered = tuple(offered)
        self._calls: dict[str, list[SignatureCall]] = {name: [] for name in HOOKS}
        for given in callbacks:
            if isinstance(given, type):
                continue
            for name in dir(given):
                if not name.startswith("on_") or not callable(method := getattr(given, name)):
                    continue
                if name not in HOOKS:
                    raise EngineError(
                        f"{type(given).__name__} has the method {name}", f"the hooks {', '.join(HOOKS)}", "rename it"
                    )
                self._calls[name].append(SignatureCall(method, (*offered, *HOOKS[name]), "the hook"))

    def wanted(self, name: str) -> bool:
        """Whether anything is to be called at this point."""
        return bool(self._calls[name])

    def call(self, name: str, offered: Mapping[str, object]) -> None:
        """Calls the hooks of this name.

        Raises: EngineError for one that returns something.
        """
        for call in self._calls[name]:
            returned = call(offered)
            if returned is not None:
                raise EngineError(
                    f"the hook {name} returned {type(returned).__name__}",
                    "None: hooks change nothing",
                    "return changes from train_step_callback or train_epoch_callback",
                )
