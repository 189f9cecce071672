"""Making the change that a callback asked for: all checks first, then model, optimizer, settings."""

from __future__ import annotations

import sys

from torch import nn

from growkit.errors import EngineError
from growkit.train.likeness import described
from growkit.train.run_state import RunState
from growkit.train.state_transfer import plan_handover
from growkit.train.step_return import StepCallbackReturn


def apply_change(state: RunState, change: StepCallbackReturn) -> None:
    """Puts a change in force; one that is refused changes nothing that the engine holds.

    Raises: SettingsError, EngineError.
    """
    runtime = state.runtime
    in_force, source = state.checked_updates(change.config_updates)
    model = change.updated_model
    if model is not None and model is not runtime.model:
        with runtime.ranks.leaving_together("the new model"):
            _replace_model(state, model, change)
    elif model is not None:
        state.watch.check_followed()
    before = state.watch.parameter_count
    if model is not None:
        if runtime.is_sharded:
            runtime.drop_wrapper()
        runtime.ranks.agree("the changed model", described(runtime.model, runtime.optimizers))
        runtime.share()
        _forget_compiled()
        runtime.rebuild()
        state.watch.accept()
        for changed in state.when_model_changes:
            changed()
        state.display.message(
            f"step {state.progress.step}: model changed: {before:,} -> {state.watch.parameter_count:,} parameters"
        )
    state.put_in_force(in_force, source)
    if model is not None:
        state.call_hooks("on_growth", parameters_before=before, parameters=state.watch.parameter_count)


def _forget_compiled() -> None:
    """Code for shapes that are gone counts towards torch's limit of 8, past which it runs uncompiled without a word."""
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.reset()


def _replace_model(state: RunState, model: nn.Module, change: StepCallbackReturn) -> None:
    runtime = state.runtime
    on_meta = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    if on_meta:
        raise EngineError(
            f"an updated_model with parameters on the meta device: {', '.join(on_meta[:4])}",
            "a model that holds its values",
            "load the values before returning it",
        )
    followers = [follower for follower in runtime.followers if follower is not runtime.averages]
    if followers:
        raise EngineError(
            f"a new model instance, and {len(followers)} followers of the old one",
            "followers only where the model is changed in place by a service",
            "grow the model with growkit, or pass no followers to Runtime",
        )
    runtime.drop_wrapper()
    handovers = [
        plan_handover(
            optimizer,
            runtime.model,
            model,
            optimizer_state=change.optimizer_state,
            parameter_map=change.parameter_map,
            alone=len(runtime.optimizers) == 1,
        )
        for optimizer in runtime.optimizers.values()
    ]
    runtime.use(model)
    for handover in handovers:
        handover.commit()
    if runtime.averages is not None and (anew := runtime.averages.move_to(model, change.parameter_map or {})):
        more = f" and {len(anew) - 4} more" if len(anew) > 4 else ""
        state.display.message(f"step {state.progress.step}: averages start anew: {', '.join(anew[:4])}{more}")
    for service in state.services.values():
        service.attach(runtime)
