"""The callbacks at a window start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from growkit.errors import EngineError
from growkit.train.arguments import SignatureCall
from growkit.train.model_change import apply_change
from growkit.train.run_state import OFFERED_TO_CALLBACKS, RunState
from growkit.train.step_return import StepCallbackReturn, merge_returns


class StepCallbacks:
    """Functions, and objects with a method `train_step_callback`, called in order before a window opens.

    They run before the step that opens an accumulation window, while no gradient is alive. Each gets
    what its signature names and may return a StepCallbackReturn, which is in force before the next
    one is called. An exception of a callback goes through; nothing the engine holds has changed then.

    Raises: EngineError.
    """

    def __init__(self, callbacks: Sequence[object], service_names: Iterable[str]):
        offered = (*OFFERED_TO_CALLBACKS, *service_names)
        self._calls = [SignatureCall(_function(given), offered, "the step callback") for given in callbacks]

    def run(self, state: RunState) -> None:
        """Calls all of them at the point that `state.progress` names."""
        if not self._calls and not state.services:
            return
        state.runtime.clear_gradients()
        for call in self._calls:
            self._finish(state, call(state.offered_to_callbacks()))
        if not self._calls:
            self._finish(state, None)
        state.runtime.ensure_wrapped()
        state.runtime.enter_training()

    def _finish(self, state: RunState, returned: object) -> None:
        """Puts in force what the callback returned, and what a service did although it was not returned."""
        if returned is not None and not isinstance(returned, StepCallbackReturn):
            raise EngineError(
                f"a step callback returned {type(returned).__name__}",
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
            apply_change(state, change)


def _function(given: object) -> Callable[..., object]:
    method = getattr(given, "train_step_callback", None)
    function = given if method is None else method
    if not callable(function) or isinstance(function, type):
        raise EngineError(
            f"{given!r} as a callback",
            "a function, or an object with a method train_step_callback",
            "pass the function itself, or an instance of the class",
        )
    return function
