"""From the features that a run asks for to the chain of loops that has them; nothing else reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection

from torch.optim import Optimizer

from growkit.errors import EngineError
from growkit.train.arguments import SignatureCall
from growkit.train.callbacks import Callbacks
from growkit.train.epoch_loop import EpochLoop
from growkit.train.evaluation import Evaluation
from growkit.train.fit_loop import FitLoop
from growkit.train.flow_automatic import AutomaticFlow
from growkit.train.run_state import OFFERED_TO_TRAIN_STEP, RunState


def check_features(train_step: object, optimizers: object) -> None:
    """Refuses what no chain of loops can run.

    Raises: EngineError.
    """
    if isinstance(optimizers, Collection) and not isinstance(optimizers, Optimizer):
        raise EngineError(
            f"optimizers is a {type(optimizers).__name__} of {len(optimizers)}",
            "one torch.optim.Optimizer, or a function of the model that returns one",
            "put all parameters into the groups of one optimizer",
        )
    if not callable(train_step):
        raise EngineError(
            f"train_step is a {type(train_step).__name__}",
            "a function that returns the loss of a batch",
            "pass a function train_step(model, batch)",
        )
    if inspect.isgeneratorfunction(train_step):
        raise EngineError(
            f"train_step {getattr(train_step, '__name__', '')!r} yields",
            "a function that returns one loss",
            "return the loss",
        )


def compose(
    state: RunState, train_step: Callable[..., object], callbacks: Callbacks, evaluation: Evaluation
) -> FitLoop:
    """The chain of loops for a run: FitLoop -> EpochLoop -> AutomaticFlow.

    Raises: EngineError for a train step whose parameters cannot be filled.
    """
    call = SignatureCall(train_step, (*OFFERED_TO_TRAIN_STEP, *state.services), "train_step")
    flow = AutomaticFlow(state, call)
    return FitLoop(state, EpochLoop(state, flow, callbacks), evaluation)


def chain_text(loop: object) -> str:
    """The names of a loop and all loops inside it: `FitLoop -> EpochLoop -> AutomaticFlow`."""
    names = []
    while loop is not None:
        names.append(type(loop).__name__)
        loop = getattr(loop, "inner", None)
    return " -> ".join(names)
