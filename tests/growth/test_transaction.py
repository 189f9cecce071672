"""One growth written as a whole."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn
from torch.optim import Adam

from growkit import Insert, discover, grow, make_plan
from growkit.growth import transaction
from growkit.growth.journal import Journal
from growkit.growth.resolve import resolve
from growkit.growth.transaction import commit
from growkit.optim.check import check_optimizer
from tests.growth.nets import Branch, picture, residual, rows, train


def test_what_was_written_is_listed_and_taken_back() -> None:
    model = residual()
    optimizer = Adam([p for name, p in model.named_parameters() if name != "last.weight"])
    train(model, optimizer)
    plan = make_plan(
        discover(model, rows()), {"blocks.0.up.weight[0]": 7, "first.weight[0]": 8}, {"blocks": Insert(at=[0])}
    )
    checked = [(optimizer, check_optimizer(optimizer, dict(model.named_parameters())))]
    follower = dict(model.state_dict())
    before = picture(model, [optimizer], [follower])
    journal = Journal()
    changes = commit(model, resolve(plan, model), checked, [follower], "mean", journal)
    assert changes.renames["blocks.1.up.weight"] == "blocks.2.up.weight"
    assert {old.split(".")[1] for old in changes.renames} == {"0", "1"}
    assert len(changes.renames) == 12
    assert changes.new_parameters == tuple(f"blocks.0.{name}" for name, _ in model.blocks[0].named_parameters())
    assert changes.unoptimized == ("last.weight",)
    assert {s.slot: s.status for s in changes.slots["blocks.1.up.weight"]} == {
        "step": "exact",
        "exp_avg": "new",
        "exp_avg_sq": "new",
    }
    assert {s.status for s in changes.slots["blocks.2.up.weight"]} == {"exact"}
    assert changes.slots["last.weight"] == ()
    assert follower["blocks.1.up.weight"].shape == (7, 8)
    assert picture(model, [optimizer], [follower]) != before
    journal.undo()
    assert picture(model, [optimizer], [follower]) == before


def test_without_optimizers_everything_that_changed_is_unoptimized() -> None:
    model = residual()
    plan = make_plan(discover(model, rows()), deepen={"blocks": 3})
    changes = commit(model, resolve(plan, model), [], [], "mean", Journal(keep=False))
    assert len(changes.new_parameters) == 6
    assert changes.unoptimized == changes.new_parameters
    assert len(model.blocks) == 3


@pytest.mark.parametrize("rollback", [True, False])
def test_old_tensors_are_freed_one_by_one_without_rollback(rollback: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of old grown parameters and their slots that are alive when each new one takes its place."""
    model = residual()
    optimizer = Adam(model.parameters())
    train(model, optimizer)
    plan = make_plan(discover(model, rows()), {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7})
    olds = [weakref.ref(p) for name, p in model.named_parameters() if name in plan.layouts]
    olds += [weakref.ref(optimizer.state[old()]["exp_avg"]) for old in olds]
    alive: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        alive.append(sum(old() is not None for old in olds))
        return move_state(*args, **kwargs)

    move_state = transaction.move_state
    monkeypatch.setattr(transaction, "move_state", counted)
    grow(model, plan, optimizers=optimizer, rollback=rollback)
    count = len(olds) // 2
    assert len(alive) == count
    assert alive == ([2 * count] * count if rollback else [2 * (count - done) for done in range(count)])
    gc.collect()
    assert not any(old() is not None for old in olds)


def test_a_new_block_keeps_the_config_of_the_model() -> None:
    class Configured(Branch):
        def __init__(self, config: SimpleNamespace):
            super().__init__(4, 5)
            self.config, self.own = config, SimpleNamespace(words="its own")

    config = SimpleNamespace(words="of all")
    model = nn.Sequential(
        nn.Linear(3, 4), nn.Sequential(Configured(config), Configured(config)), nn.Linear(4, 3)
    ).double()
    model.config = config
    grow(model, deepen={"1": 3}, example_inputs=rows())
    assert [block.config is config for block in model[1]] == [True] * 3
    assert len({id(block.own) for block in model[1]}) == 3
