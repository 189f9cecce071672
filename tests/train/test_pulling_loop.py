"""Train steps that take their batches themselves."""

from typing import Any

import pytest
import torch

from growkit.errors import EngineError


def test_a_step_takes_as_many_batches_as_it_wants(make_net: Any, make_engine: Any, batches: Any, loss_of: Any) -> None:
    def train_step(model, data_iter):
        loss = loss_of(model, next(data_iter))
        other = next(data_iter, None)
        return loss if other is None else loss + loss_of(model, other)

    engine = make_engine(train_step=train_step)
    engine.fit(2)
    net = make_net()
    adam = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(2):
        for part in (batches[:2], batches[2:4], batches[4:]):
            adam.zero_grad()
            sum(loss_of(net, batch) for batch in part).backward()
            adam.step()
    assert all(torch.equal(p, q) for p, q in zip(engine.model.parameters(), net.parameters(), strict=True))
    assert (engine.progress.epoch, engine.progress.step, engine.progress.updates) == (3, 10, 6)


def test_taking_no_batch_or_one_too_many_is_refused(make_engine: Any, loss_of: Any) -> None:
    with pytest.raises(EngineError, match="took no batch from data_iter"):
        make_engine(train_step=lambda model, data_iter: loss_of(model, data_iter.peek())).fit(1)

    def always_two(model, data_iter):
        return loss_of(model, next(data_iter)) + loss_of(model, next(data_iter))

    with pytest.raises(EngineError, match="took a batch after the last one of the epoch"):
        make_engine(train_step=always_two).fit(1)
