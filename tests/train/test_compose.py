"""From features to loops."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError, GrowkitError
from growkit.train import Settings
from growkit.train.explain import chain_text
from growkit.train.flow_automatic import AutomaticFlow
from growkit.train.loop import only_outcome


def plain(model, batch): ...
def carrying(model, batch, carry): ...
def by_optimizer(model, batch, optimizer): ...
def carrying_by_optimizer(model, batch, carry, optimizer): ...
def manual(model, batch, flow): ...
def carrying_manual(model, batch, carry, flow): ...
def pulling(model, data_iter): ...


def yielding(model, batch):
    yield


def carrying_yielding(model, batch, carry):
    yield


def two(model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    return {name: torch.optim.SGD(model[index].parameters(), lr=0.1) for name, index in (("low", 0), ("high", 2))}


SPLITS = Settings(truncated_bptt_steps=4, time_dims=1)


@pytest.mark.parametrize(
    ("train_step", "several", "settings", "chain"),
    [
        (plain, False, Settings(), "AutomaticFlow"),
        (plain, False, Settings(accumulate_steps=3), "AutomaticFlow"),
        (by_optimizer, True, Settings(), "OptimizerLoop -> AutomaticFlow"),
        (manual, True, Settings(), "ManualFlow"),
        (manual, False, Settings(accumulate_steps=2), "ManualFlow"),
        (yielding, True, Settings(), "YieldingFlow"),
        (carrying, False, SPLITS, "TbpttLoop -> AutomaticFlow"),
        (carrying, False, Settings(carry_over_batches=True), "TbpttLoop -> AutomaticFlow"),
        (carrying, False, Settings(truncated_bptt_steps=0), "AutomaticFlow"),
        (carrying_by_optimizer, True, SPLITS, "TbpttLoop -> OptimizerLoop -> AutomaticFlow"),
        (carrying_manual, False, SPLITS, "TbpttLoop -> ManualFlow"),
        (carrying_yielding, True, SPLITS, "TbpttLoop -> YieldingFlow"),
        (pulling, False, Settings(), "PullingLoop -> AutomaticFlow"),
    ],
)
def test_the_chain_has_the_loops_of_its_features(
    make_engine: Any, train_step: Any, several: bool, settings: Settings, chain: str
) -> None:
    given = {"optimizers": two} if several else {}
    engine = make_engine(train_step=train_step, settings=settings, **given)
    assert chain_text(engine._loop) == f"FitLoop -> EpochLoop -> {chain}"


def both_ways(model, batch, flow):
    yield


def yields_for_one(model, batch, optimizer):
    yield


def takes_both(model, batch, data_iter): ...


ACCUMULATING_SPLITS = Settings(truncated_bptt_steps=4, time_dims=1, accumulate_steps=2)


@pytest.mark.parametrize(
    ("train_step", "several", "settings", "given"),
    [
        (None, False, Settings(), "train_step is a NoneType"),
        (both_ways, False, Settings(), "a train step that yields and names `flow`"),
        (yields_for_one, True, Settings(), "a train step that yields and names `optimizer`"),
        (plain, True, Settings(), "several optimizers, and a train step that does not say which of them its loss is"),
        (takes_both, False, Settings(), "a train step that names `batch` and `data_iter`"),
        (yielding, True, Settings(accumulate_steps=2), "accumulate_steps=2 for a train step that yields"),
        (pulling, False, Settings(accumulate_steps=2), "a train step that names `data_iter`, with accumulation"),
        (plain, False, SPLITS, "truncated_bptt_steps=4 for a train step that does not name `carry`"),
        (carrying, False, ACCUMULATING_SPLITS, "accumulate_steps=2 with truncated_bptt_steps and an update for every"),
        (carrying, False, Settings(truncated_bptt_steps=4), "truncated_bptt_steps=4 without time_dims"),
    ],
)
def test_contradictions_are_refused_by_name(
    make_engine: Any, train_step: Any, several: bool, settings: Settings, given: str
) -> None:
    optimizers = {"optimizers": two} if several else {}
    with pytest.raises(GrowkitError) as caught:
        make_engine(train_step=train_step, settings=settings, **optimizers)
    assert caught.value.given.startswith(given)


def test_a_train_step_with_an_unknown_parameter_is_refused(make_engine: Any) -> None:
    with pytest.raises(EngineError, match="train_step '<lambda>' asks for 'bach'") as caught:
        make_engine(train_step=lambda model, bach: model(bach))
    assert caught.value.next_step == "rename the parameter to 'batch'"


@pytest.mark.parametrize(
    ("theirs", "ours"), [("hiddens", "carry"), ("optimizer_idx", "optimizer"), ("dataloader_iter", "data_iter")]
)
def test_words_of_other_trainers_are_answered_with_ours(make_engine: Any, theirs: str, ours: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def step(model, batch, {theirs}): ...", scope)
    with pytest.raises(EngineError) as caught:
        make_engine(train_step=scope["step"])
    assert caught.value.next_step == f"rename the parameter to {ours!r}"


class Doubled:
    """A loop of a user's own: each batch twice, as two units of work."""

    def __init__(self, state: Any, inner: Any):
        self._state, self.inner = state, inner

    def run(self, batch, window, carry=None):
        for turn in range(self._state.progress.split, 2):
            outcome = only_outcome(self.inner.run(batch, window, carry))
            outcome = type(outcome)(outcome.metrics, updates=outcome.updates, ends_batch=turn == 1)
            yield outcome

    def state_dict(self):
        return {"inner": self.inner.state_dict()}

    def load_state_dict(self, state):
        self.inner.load_state_dict(state["inner"])


def test_users_add_loops_and_flows_of_their_own(make_engine: Any, batches: Any) -> None:
    class OwnFlow(AutomaticFlow):
        pass

    engine = make_engine(loops=[Doubled], flow=OwnFlow)
    assert chain_text(engine._loop) == "FitLoop -> EpochLoop -> Doubled -> OwnFlow"
    engine.fit(1)
    assert (engine.progress.step, engine.progress.updates) == (len(batches), 2 * len(batches))
