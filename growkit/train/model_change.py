"""Making the change that a callback asked for: all checks first, then model, optimizer, settings."""

from __future__ import annotations

import sys
from collections.abc import Collection

from torch import nn

from growkit.errors import EngineError
from growkit.train.config_updates import SettingsInForce
from growkit.train.likeness import described
from growkit.train.optimizer_change import Replacement, plan_replacement
from growkit.train.run_state import RunState
from growkit.train.state_transfer import plan_handover
from growkit.train.step_return import StepCallbackReturn


def apply_change(state: RunState, change: StepCallbackReturn) -> None:
    """Puts a change in force; one that is refused changes nothing that the engine holds.

    Raises: SettingsError, EngineError.
    """
    runtime = state.runtime
    in_force, source = state.checked_updates(change.config_updates)
    model, in_place = change.updated_model, change.updated_model is runtime.model
    replacement = None if change.optimizers is None else _planned(state, change, in_force)
    if model is not None and not in_place:
        with runtime.ranks.leaving_together("the new model"):
            _replace_model(state, model, change, left_out=() if replacement is None else replacement.optimizers)
    if replacement is not None:
        state.display.message(f"step {state.progress.step}: {replacement.commit(runtime)}")
    if in_place:
        state.watch.check_followed()
    before = state.watch.parameter_count
    if model is not None or replacement is not None:
        if runtime.is_sharded:
            runtime.drop_wrapper()
        what = "the new optimizers" if model is None else "the changed model"
        runtime.ranks.agree(what, described(runtime.model, runtime.optimizers))
        runtime.share()
        _forget_compiled()
        runtime.rebuild()
        state.watch.accept()
    if model is not None:
        for changed in state.when_model_changes:
            changed()
        state.display.message(
            f"step {state.progress.step}: model changed: {before:,} -> {state.watch.parameter_count:,} parameters"
        )
    state.put_in_force(in_force, source)
    if model is not None:
        state.call_hooks("on_growth", parameters_before=before, parameters=state.watch.parameter_count)


def _planned(state: RunState, change: StepCallbackReturn, in_force: SettingsInForce) -> Replacement | None:
    """The optimizers that are to take the place of others; None where those given are in force already."""
    runtime = state.runtime
    with runtime.ranks.leaving_together("the new optimizers"):
        if runtime.is_sharded:
            raise EngineError(
                "new optimizers of a sharded model", "those it began with", "start a new run from the saved weights"
            )
        model = runtime.model if change.updated_model is None else change.updated_model
        rate = state.settings_of(in_force).learning_rate
        replacement = plan_replacement(runtime, change.optimizers, model, rate)  # type: ignore[arg-type]
    return replacement if replacement.optimizers else None


def _forget_compiled() -> None:
    """Code for shapes that are gone counts towards torch's limit of 8, past which it runs uncompiled without a word."""
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.reset()


def _replace_model(state: RunState, model: nn.Module, change: StepCallbackReturn, *, left_out: Collection[str]) -> None:
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
        for name, optimizer in runtime.optimizers.items()
        if name not in left_out
    ]
    runtime.use(model)
    for handover in handovers:
        handover.commit()
    if runtime.averages is not None and (anew := runtime.averages.move_to(model, change.parameter_map or {})):
        more = f" and {len(anew) - 4} more" if len(anew) > 4 else ""
        state.display.message(f"step {state.progress.step}: averages start anew: {', '.join(anew[:4])}{more}")
    for service in state.services.values():
        service.attach(runtime)
