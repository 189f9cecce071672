"""An optimizer handed over to a new model instance."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError
from growkit.train.state_transfer import plan_handover


def trained(net: nn.Module, groups: list[dict[str, Any]] | None = None) -> torch.optim.Adam:
    """Adam after one step, so that it has state."""
    optimizer = torch.optim.Adam(groups or net.parameters(), lr=0.1)
    net(torch.ones(2, 3, dtype=torch.float64)).sum().backward()
    optimizer.step()
    return optimizer


def moments(optimizer: torch.optim.Optimizer, net: nn.Module) -> dict[str, torch.Tensor]:
    return {name: optimizer.state[p]["exp_avg"].clone() for name, p in net.named_parameters() if p in optimizer.state}


def test_state_goes_along_by_name_and_groups_keep_their_order(make_net: Callable[..., Any]) -> None:
    old, new = make_net(), make_net(seed=1)
    foreign = torch.zeros(1, requires_grad=True)
    optimizer = trained(old, [{"params": [old[2].weight, foreign], "weight_decay": 0.1}, {"params": [old[0].weight]}])
    before = moments(optimizer, old)
    plan_handover(optimizer, old, new).commit()
    held = [[id(p) for p in group["params"]] for group in optimizer.param_groups]
    assert held == [[id(new[2].weight), id(foreign)], [id(new[0].weight)]]
    assert optimizer.param_groups[0]["weight_decay"] == 0.1
    after = moments(optimizer, new)
    assert before.keys() == after.keys() == {"0.weight", "2.weight"}
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert set(map(id, optimizer.state)) <= {id(p) for p in (*new.parameters(), foreign)}


def test_renamed_parameters_are_found_by_the_map(make_net: Callable[..., Any]) -> None:
    old, inner = make_net(), make_net(seed=1)
    new = nn.Sequential(inner)
    optimizer = trained(old)
    before = moments(optimizer, old)
    names = {f"0.{name}": name for name in before}
    plan_handover(optimizer, old, new, parameter_map=names).commit()
    after = moments(optimizer, inner)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_reset_starts_with_empty_state(make_net: Callable[..., Any]) -> None:
    old, new = make_net(), make_net(width=7).append(nn.Linear(1, 1))
    optimizer = trained(old)
    plan_handover(optimizer, old, new, optimizer_state="reset").commit()
    assert not optimizer.state
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(p) for p in new.parameters()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda make: make(width=7), r"0.weight is \(7, 3\), was \(5, 3\)"),
        (lambda make: make().float(), r"0.weight is torch.float32, was torch.float64"),
        (lambda make: make().append(nn.Linear(1, 1)), "3.weight is new; 3.bias is new"),
        (lambda make: make()[:2], "2.weight is missing; 2.bias is missing"),
    ],
)
def test_a_model_that_the_state_does_not_fit_is_refused_and_nothing_changed(
    make_net: Callable[..., Any], change: Callable[..., nn.Module], message: str
) -> None:
    old = make_net()
    optimizer = trained(old)
    before = moments(optimizer, old)
    with pytest.raises(EngineError, match=message):
        plan_handover(optimizer, old, change(make_net))
    after = moments(optimizer, old)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_new_parameter_without_a_group_is_refused(make_net: Callable[..., Any]) -> None:
    old = make_net()
    optimizer = trained(old, [{"params": [old[0].weight]}, {"params": [old[2].weight]}])
    with pytest.raises(
        EngineError, match=r"new parameters 3\.weight; 3\.bias for an optimizer with 2 parameter groups"
    ):
        plan_handover(optimizer, old, make_net().append(nn.Linear(1, 1)), optimizer_state="reset")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"0.weight": "nowhere"}, "unknown names: nowhere"),
        ({"nowhere": "0.weight"}, "unknown names: nowhere"),
        ({"2.weight": "0.weight"}, "repeated names: 0.weight"),
    ],
)
def test_a_wrong_map_is_refused(make_net: Callable[..., Any], names: dict[str, str], message: str) -> None:
    old = make_net()
    with pytest.raises(EngineError, match=message):
        plan_handover(trained(old), old, make_net(), parameter_map=names)
