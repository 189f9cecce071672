"""The callbacks at the start of an epoch, and before every window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from growkit.errors import EngineError
from growkit.train.arguments import SignatureCall
from growkit.train.hooks import HOOKS, Hooks
from growkit.train.model_change import apply_change
from growkit.train.run_state import OFFERED_TO_CALLBACKS, OFFERED_TO_EPOCH_CALLBACKS, RunState
from growkit.train.step_return import StepCallbackReturn, merge_returns

_STEP, _EPOCH = "train_step_callback", "train_epoch_callback"


class Callbacks:
    """What a run calls in order at its points: first at the start of an epoch, then before each window.

    Epoch callbacks run before a batch of the epoch is fetched, so that a change of the data holds for
    all of it; step callbacks before the step that opens an accumulation window. No gradient is alive
    then. Each gets what its signature names and may return a StepCallbackReturn, which is in force
    before the next one is called. An exception of a callback goes through; nothing the engine holds
    has changed then.

    `callbacks`: functions, called as step callbacks, and objects with methods `train_step_callback`,
    `train_epoch_callback`, or hooks (`Hooks`). `epoch_callbacks`: functions, called before those methods.

    Raises: EngineError.
    """

    def __init__(
        self,
        callbacks: Sequence[object],
        epoch_callbacks: Sequence[object] = (),
        *,
        service_names: Iterable[str] = (),
        several_optimizers: bool = False,
    ):
        services = tuple(service_names)
        at_epochs, at_steps = [_function(given, "an epoch callback") for given in epoch_callbacks], []
        for given in callbacks:
            methods = {name: getattr(given, name) for name in (_STEP, _EPOCH) if hasattr(given, name)}
            if isinstance(given, type) or not (methods or any(name.startswith("on_") for name in dir(given))):
                methods = {_STEP: _function(given, "a callback")}
            at_steps += [methods[_STEP]] if _STEP in methods else []
            at_epochs += [methods[_EPOCH]] if _EPOCH in methods else []
        left_out = ("optimizer",) if several_optimizers else ()
        offered = [name for name in (*OFFERED_TO_CALLBACKS, *services) if name not in left_out]
        offered_at_epochs = [name for name in (*OFFERED_TO_EPOCH_CALLBACKS, *services) if name not in left_out]
        self.hooks = Hooks(callbacks, offered_at_epochs)
        """Those that only look."""
        self._at_steps = [SignatureCall(function, offered, "the step callback") for function in at_steps]
        self._at_epochs = [SignatureCall(function, offered_at_epochs, "the epoch callback") for function in at_epochs]

    def run_epoch(self, state: RunState) -> None:
        """Calls those for the start of an epoch, at the point that `state.progress` names."""
        if self._at_epochs:
            _run(state, self._at_epochs, state.offered_to_epoch_callbacks, "an epoch callback")

    def run_step(self, state: RunState) -> None:
        """Calls those for a window start, at the point that `state.progress` names."""
        if self._at_steps or state.services:
            _run(state, self._at_steps, state.offered_to_callbacks, "a step callback")


def _run(
    state: RunState, calls: Sequence[SignatureCall], offered: Callable[[], Mapping[str, object]], what: str
) -> None:
    state.runtime.clear_gradients()
    ranks, point = state.runtime.ranks, f"{what} in epoch {state.progress.epoch} before step {state.progress.step}"
    for call in calls or (None,):
        with ranks.leaving_together(point):
            change = _change(state, None if call is None else call(offered()), what)
        ranks.agree(point, _said(change))
        if change is not None:
            apply_change(state, change)
    state.runtime.enter_training()


def _change(state: RunState, returned: object, what: str) -> StepCallbackReturn | None:
    """What the callback returned, and what a service did although it was not returned."""
    if returned is not None and not isinstance(returned, StepCallbackReturn):
        raise EngineError(
            f"{what} returned {type(returned).__name__}",
            "None, or a StepCallbackReturn",
            "return StepCallbackReturn(updated_model=model), or with config_updates={...}",
        )
    changes = [change for service in state.services.values() if (change := service.take_change()) is not None]
    if returned is not None:
        changes.append(returned)
    change = merge_returns(changes)
    if change is None or change.updated_model is None:
        state.watch.check_unchanged()
    if change is not None:
        state.checked_updates(change.config_updates)
    return change


def _said(change: StepCallbackReturn | None) -> str:
    """What a callback decided, as text that is the same on every rank."""
    if change is None:
        return "no change"
    updates = {
        name: value if isinstance(value, int | float | str | bool | None) else type(value).__name__
        for name, value in sorted(change.config_updates.items())
    }
    model = "no change of the model" if change.updated_model is None else "the model changes"
    optimizers = "" if change.optimizers is None else "; the optimizers change"
    return f"{model}{optimizers}; config updates {updates}"


def _function(given: object, what: str) -> Callable[..., object]:
    if not callable(given) or isinstance(given, type):
        raise EngineError(
            f"{given!r} as {what}",
            f"a function; among callbacks also an object with a method {_STEP}, {_EPOCH} or one of {', '.join(HOOKS)}",
            "pass the function itself, or an instance of the class",
        )
    return given
