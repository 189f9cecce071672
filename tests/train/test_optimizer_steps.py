"""Backward passes and what torch's messages about them mean."""

from typing import Any

import pytest

from growkit.errors import EngineError


@pytest.mark.report("R182")
def test_a_graph_that_reaches_into_the_step_before_is_explained(make_engine: Any, loss_of: Any) -> None:
    kept: list[Any] = []

    def train_step(model, batch):
        loss = loss_of(model, batch) + sum(kept)
        kept.append(loss)
        return loss

    with pytest.raises(EngineError, match="reaches back into an earlier step") as caught:
        make_engine(train_step=train_step).fit(1)
    assert caught.value.next_step.startswith("return the state as carry")


def test_other_errors_of_a_backward_pass_go_through(make_engine: Any, loss_of: Any) -> None:
    def train_step(model, batch):
        loss = loss_of(model, batch)
        loss.register_hook(lambda gradient: (_ for _ in ()).throw(RuntimeError("of the user's own")))
        return loss

    with pytest.raises(RuntimeError, match="of the user's own"):
        make_engine(train_step=train_step).fit(1)
