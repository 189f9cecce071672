"""From the features that a run asks for to the chain of loops that has them; nothing else reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence

from growkit.errors import EngineError, SettingsError
from growkit.train.arguments import SignatureCall
from growkit.train.callbacks import Callbacks
from growkit.train.epoch_loop import EpochLoop
from growkit.train.evaluation import Evaluation
from growkit.train.fit_loop import FitLoop
from growkit.train.flow_automatic import AutomaticFlow
from growkit.train.flow_manual import ManualFlow
from growkit.train.flow_yielding import YieldingFlow
from growkit.train.loop import Loop
from growkit.train.optimizer_loop import OptimizerLoop
from growkit.train.optimizer_steps import OptimizerSteps
from growkit.train.pulling_loop import PullingLoop
from growkit.train.run_state import OFFERED_TO_TRAIN_STEP, RunState
from growkit.train.settings import Settings
from growkit.train.tbptt_loop import TbpttLoop

MakeLoop = Callable[[RunState, Loop], Loop]
MakeFlow = Callable[[RunState, SignatureCall, OptimizerSteps], Loop]


def compose(
    state: RunState,
    train_step: Callable[..., object],
    callbacks: Callbacks,
    evaluation: Evaluation,
    *,
    loops: Sequence[MakeLoop] = (),
    flow: MakeFlow | None = None,
) -> FitLoop:
    """The chain of loops for a run: FitLoop -> EpochLoop -> [TbpttLoop] -> [OptimizerLoop] -> a flow.

    `loops`: a user's own, from the outermost on, between EpochLoop and the rest. `flow`: a user's own.

    Raises: EngineError, SettingsError for features that contradict each other.
    """
    if not callable(train_step):
        raise EngineError(
            f"train_step is a {type(train_step).__name__}",
            "a function that returns the loss of a batch",
            "pass a function train_step(model, batch)",
        )
    call = SignatureCall(train_step, (*OFFERED_TO_TRAIN_STEP, *state.services), "train_step")
    yields = inspect.isgeneratorfunction(inspect.unwrap(train_step))
    named = call.named
    _check_step(named, yields=yields, several=len(state.runtime.optimizers) > 1)
    state.check_chain = _chain_check(state.settings, named, yields=yields)
    state.check_chain(state.settings)

    def add(loop: Loop, asked_by: str) -> Loop:
        state.asked_by[type(loop).__name__] = asked_by
        return loop

    steps = OptimizerSteps(state)
    state.gradients_stay = flow is not None or ("flow" in named and not yields)
    if flow is not None:
        inner = add(flow(state, call, steps), "Engine(flow=...)")
    elif yields:
        inner = add(YieldingFlow(state, call, steps), "train_step yields")
    elif "flow" in named:
        inner = add(ManualFlow(state, call, steps), "train_step names `flow`")
    else:
        automatic = AutomaticFlow(state, call, steps)
        inner = add(automatic, "train_step returns a loss")
        if len(state.runtime.optimizers) > 1:
            inner = add(OptimizerLoop(state, automatic), "several optimizers, and train_step names `optimizer`")
    if "data_iter" in named:
        inner = add(PullingLoop(state, inner), "train_step names `data_iter`")
    if _splits(state.settings):
        splits = "truncated_bptt_steps" if state.settings.truncated_bptt_steps else "carry_over_batches"
        inner = add(TbpttLoop(state, inner), f"Settings({splits}=...)")
    for make in reversed(loops):
        inner = add(make(state, inner), "Engine(loops=[...])")
    return FitLoop(state, EpochLoop(state, inner, callbacks), evaluation)


def _splits(settings: Settings) -> bool:
    return bool(settings.truncated_bptt_steps) or settings.carry_over_batches


def _check_step(named: Collection[str], *, yields: bool, several: bool) -> None:
    """Refuses a train step that asks for two ways at once."""
    if yields and "flow" in named:
        raise EngineError(
            "a train step that yields and names `flow`",
            "yield optimizer_name, loss, and let the engine step; or flow.backward and flow.step",
            "remove `flow` from its parameters, or do not yield",
        )
    if "optimizer" in named and (yields or "flow" in named):
        raise EngineError(
            f"a train step that {'yields' if yields else 'names `flow`'} and names `optimizer`",
            "`optimizer` where the step runs once for each of several optimizers",
            "remove it: the step says itself which optimizer it means",
        )
    if several and not yields and "flow" not in named and "optimizer" not in named:
        raise EngineError(
            "several optimizers, and a train step that does not say which of them its loss is for",
            "train_step(model, batch, optimizer), run for each by name; yield optimizer_name, loss; or `flow`",
            "name `optimizer` in its parameters",
        )
    if "data_iter" in named and "batch" in named:
        raise EngineError(
            "a train step that names `batch` and `data_iter`", "one of them", "take the batch with next(data_iter)"
        )


def _chain_check(given: Settings, named: Collection[str], *, yields: bool) -> Callable[[Settings], None]:
    """A check of settings against the chain that is composed for those given."""

    def refuse(what: str, allowed: str, next_step: str) -> None:
        raise SettingsError(what, allowed, next_step)

    def check(settings: Settings) -> None:
        accumulates = settings.accumulate_steps > 1
        if accumulates and yields:
            refuse(
                f"accumulate_steps={settings.accumulate_steps} for a train step that yields, and steps at every yield",
                "accumulate_steps=1",
                "take larger batches, or accumulate with `flow`",
            )
        if "data_iter" in named and (accumulates or _splits(settings)):
            refuse(
                "a train step that names `data_iter`, with accumulation or truncated_bptt_steps",
                "a step that gets its `batch`",
                "name `batch` in place of `data_iter`",
            )
        if _splits(settings) and "carry" not in named:
            refuse(
                f"truncated_bptt_steps={settings.truncated_bptt_steps} for a train step that does not name `carry`",
                "train_step(model, batch, carry), which returns (loss, carry)",
                "name it: without, each split would start from nothing",
            )
        if settings.truncated_bptt_steps and accumulates and settings.update_every == "split":
            refuse(
                f"accumulate_steps={settings.accumulate_steps} with truncated_bptt_steps and an update for every split",
                "accumulate_steps=1, or update_every='batch'",
                "set update_every='batch': the gradients of all splits of all batches of a window then add up",
            )
        if settings.truncated_bptt_steps and settings.time_dims is None:
            refuse(
                f"truncated_bptt_steps={settings.truncated_bptt_steps} without time_dims",
                "the time axis of each entry of the batch, or one for all",
                "set time_dims=1, or time_dims={'x': 1, 'labels': None}",
            )
        if _splits(settings) != _splits(given):
            refuse(
                f"truncated_bptt_steps={settings.truncated_bptt_steps} in a run "
                f"{'with' if _splits(given) else 'without'} splits",
                "another length of splits where there are splits",
                "make another Engine",
            )

    return check
