"""Saving a run while it goes on, and going on from what was saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from growkit import checkpoint
from growkit.errors import CheckpointError, EngineError
from growkit.train.arguments import SignatureCall
from growkit.train.fit_loop import FitLoop
from growkit.train.optimizer_change import plan_replacement
from growkit.train.optimizers import OptimizersGiven
from growkit.train.run_state import RunState
from growkit.train.snapshot import Stateful, differences, restore, shown, snapshot

KIND = "growkit run"
_SPLITS = 1_000_000
_METHODS = ("state_dict", "load_state_dict")


class Checkpoints:
    """The checkpoints of one run, in `folder`: one folder each, named by the step that comes next.

    They are written after a unit of work is done and its hooks have run, before the next callback: whatever
    interrupts the run, each point of it is passed once. Rank 0 writes.

    stateful: what is saved along. make_model: the user's function of `epoch` and `step`, where there is one.
    optimizers: as they were given.

    Raises: EngineError where the settings ask for checkpoints and there is no folder for them.
    """

    def __init__(
        self,
        state: RunState,
        loop: FitLoop,
        folder: Path | None,
        stateful: Stateful,
        *,
        make_model: SignatureCall | None = None,
        optimizers: OptimizersGiven,
    ):
        self._state, self._loop, self._folder, self._stateful = state, loop, folder, stateful
        self._make_model, self._optimizers = make_model, optimizers
        if self._wanted and folder is None:
            raise EngineError("checkpoints without a run_dir", "a folder for them", "pass Engine(run_dir=...)")

    @property
    def _wanted(self) -> bool:
        settings = self._state.settings
        return settings.checkpoint_every is not None or settings.checkpoint_every_epochs is not None

    def after_unit(self, ends_batch: bool) -> None:
        """Saves where `checkpoint_every` says so."""
        every, progress = self._state.settings.checkpoint_every, self._state.progress
        if ends_batch and every is not None and progress.step % every == 0:
            self.save()

    def after_epoch(self, epoch: int) -> None:
        """Saves where `checkpoint_every_epochs` says so."""
        every = self._state.settings.checkpoint_every_epochs
        if every is not None and epoch % every == 0:
            self.save()

    def at_end(self) -> None:
        """Saves the end of a run that saves at all, and where it was stopped if there is a place; says so then."""
        state = self._state
        place = "nothing is saved, without a run_dir"
        if self._wanted or (state.stopping and self._folder is not None):
            place = f"saved in {self.save()}, from where resume='auto' goes on"
        if state.stopping:
            state.display.message(f"stopped at epoch {state.progress.epoch}, step {state.progress.step}: {place}")

    def save(self) -> Path:
        """Writes a checkpoint of this moment, and removes those that are not kept any more.

        Raises: EngineError without a run_dir, CheckpointError where it cannot be written.
        """
        if self._folder is None:
            raise EngineError("a checkpoint without a run_dir", "a folder for it", "pass Engine(run_dir=...)")
        state, settings, progress = self._state, self._state.settings, self._state.progress
        path = self._folder / (f"step-{progress.step:08d}" + (f"-{progress.split}" if progress.split else ""))
        values = snapshot(state, self._loop, self._stateful)
        with state.runtime.ranks.leaving_together("a checkpoint"):
            if state.runtime.ranks.own == 0:
                self._folder.mkdir(parents=True, exist_ok=True)
                order = progress.step * _SPLITS + progress.split
                meta = {"epoch": progress.epoch, **state.metrics.evaluation}
                checkpoint.save(path, values, kind=KIND, step=order, meta=meta)
                best = {"best": settings.keep_best, "metric": settings.best_metric, "mode": settings.best_mode}
                keep = checkpoint.Retention(last=settings.keep_last, **best)  # type: ignore[arg-type]
                for old in keep.expired(checkpoint.described_in(self._folder)[0]):
                    checkpoint.remove(old.path)
        state.call_hooks("on_checkpoint", path=path)
        return path

    def resume(self, resume: str | Path, optimizer_state: str = "transfer") -> Mapping[str, Any] | None:
        """Brings the run to the state of a checkpoint; None where "auto" finds none.

        optimizer_state: "reset" leaves the saved state of optimizers where it is.
        What it gives are the states of random number generators, to restore when all else is set up.

        Raises: EngineError for a run that has trained already, for another structure or set-up;
            CheckpointError for a damaged file.
        """
        state = self._state
        if state.progress.step or state.progress.split:
            raise EngineError("resume of an Engine that has trained", "a new Engine", "make the Engine anew")
        path = self._found(resume)
        if path is None:
            state.set_rows_aside()
            return None
        saved = checkpoint.load(path, kind=KIND)
        for name, service in state.services.items():
            if name in saved["services"]:
                service.load_state_dict(saved["services"][name])
        model = self._of_saved_structure(saved, path)
        if model is not state.runtime.model:
            state.runtime.use(model)
        state.runtime.refit_averages()
        if optimizer_state == "reset":
            self._optimizers_anew()
        random = restore(state, self._loop, self._stateful, saved, new_optimizers=optimizer_state == "reset")
        state.load_rows(*saved["rows"])
        state.watch.accept()
        state.display.message(f"resumed from {path}: epoch {state.progress.epoch}, step {state.progress.step}")
        if state.feed.lost_random_states:
            state.display.message(
                "resumed with persistent_workers: the same samples, but what the workers draw at random is not as in "
                "a run without interruption; with persistent_workers=False it is"
            )
        return random

    def _optimizers_anew(self) -> None:
        """Optimizers for the model as it is now."""
        runtime = self._state.runtime
        rate = self._state.settings.learning_rate
        plan_replacement(runtime, self._optimizers, runtime.model, rate).commit(runtime)
        present = {id(parameter) for parameter in runtime.model.parameters()}
        held = [p for one in runtime.optimizers.values() for group in one.param_groups for p in group["params"]]
        if any(id(parameter) not in present for parameter in held):
            raise EngineError(
                "new optimizers of the model from before its growth",
                "optimizers of the model that is gone on with",
                "pass optimizers=lambda model: ..., a function of the model",
            )

    def _found(self, resume: str | Path) -> Path | None:
        """The checkpoint that is meant: of a folder of several, the newest whole one."""
        folder = self._folder if resume == "auto" else Path(resume)
        if folder is None:
            raise EngineError("resume='auto' without a run_dir", "the run_dir of the run", "pass Engine(run_dir=...)")
        if (folder / "checkpoints").is_dir():
            folder = folder / "checkpoints"
        if not folder.is_dir():
            if resume == "auto":
                return None
            raise EngineError(
                f"resume={str(resume)!r}, which is no folder", "'auto', a checkpoint, or a run_dir", "give its path"
            )
        if self._state.runtime.ranks.own == 0:
            checkpoint.tidy(folder)
        newest = checkpoint.latest(folder, kind=KIND)
        if resume == "auto" and newest.skipped:
            if newest.found is None:  # to begin anew would be to train again what may still be saved
                path, reason = newest.skipped[0]
                raise CheckpointError(
                    f"{folder}, none of whose checkpoints is whole: {path.name}: {reason}",
                    "one that is whole, or none",
                    "bring one back, or take them away to begin anew",
                )
            for path, reason in newest.skipped:
                self._state.display.message(f"resume: {path.name} is left out: {reason}")
        if newest.found is None:
            return None if resume == "auto" else folder
        return newest.found.path

    def _of_saved_structure(self, saved: Mapping[str, Any], path: Path) -> nn.Module:
        """The model, one that the user's function makes for that place, or one grown as the run's was."""
        model = self._state.runtime.model
        if not differences(model, saved):
            return model
        if self._make_model is not None:
            progress = saved["ranks"][0]["loop"]["progress"]
            made = self._make_model({"epoch": progress["epoch"], "step": progress["step"]})
            if isinstance(made, nn.Module) and not differences(made, saved):
                return made
        for service in self._state.services.values():
            model = service.replay(model)
        if found := differences(model, saved):
            raise EngineError(
                f"{path}, whose model differs from this run's: {shown(found)}",
                "a model of the saved structure, or the small one and the service that made it grow",
                "pass get_model(*, epoch, step) as the model, or the services of the run that was saved",
            )
        return model


def with_state(stateful: Stateful, callbacks: Sequence[object]) -> dict[str, Any]:
    """Objects whose state is saved: those given by name, and the callbacks that have one.

    Raises: EngineError for an object without a state.
    """
    kept = dict(stateful)
    for name, one in kept.items():
        if not _has_state(one):
            raise EngineError(
                f"stateful={{{name!r}: {type(one).__name__}}}", f"objects with {' and '.join(_METHODS)}", "add them"
            )
    return kept | {f"callbacks[{index}]": one for index, one in enumerate(callbacks) if _has_state(one)}


def _has_state(one: object) -> bool:
    return not isinstance(one, type) and all(callable(getattr(one, name, None)) for name in _METHODS)
