"""A plan and a model: checks, and edits."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from growkit import Insert, discover, make_plan
from growkit.errors import DepthError, PlanError
from growkit.growth.plan import Plan
from growkit.growth.resolve import container_of, resolve
from tests.growth.nets import Tied, picture, residual, rows

WIDEN = {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7}


def _plan(model: nn.Module) -> Plan:
    return make_plan(discover(model, rows()), WIDEN, {"blocks": Insert(at=[0, 2])})


def test_edits_come_in_the_order_of_the_tensors_and_nothing_changes() -> None:
    model = residual()
    plan, before = _plan(model), picture(model)
    resolved = resolve(plan, model)
    names = [name for name, _ in model.named_parameters()]
    assert list(resolved.edits) == [name for name in names if name in resolved.edits]
    assert set(names) - set(resolved.edits) == {"blocks.1.up.bias", "last.bias"}
    assert resolved.edits["blocks.0.up.weight"].shape == (7, 8)
    assert picture(model) == before


def test_tied_tensors_have_one_edit_and_an_alias() -> None:
    model = Tied()
    plan = make_plan(discover(model, torch.tensor([[1, 2]])), {"up.weight[0]": 6})
    assert set(resolve(plan, model).edits) == {"up.weight", "up.bias", "down.weight"}
    assert resolve(plan, model).aliases == {"head.weight": "embedding.weight"}


def test_a_plan_for_another_model_is_refused() -> None:
    with pytest.raises(PlanError, match="a plan for another model"):
        resolve(_plan(residual()), residual(hidden=6))


def test_a_layout_that_does_not_fit_is_refused() -> None:
    model = residual()
    plan = _plan(model)
    with pytest.raises(PlanError, match=r"layout .* of 'blocks.0.up.weight' gives \(4, 4\)"):
        resolve(replace(plan, sizes=plan.sizes | {"blocks.0.up.weight[0]": 4}), model)


def test_tensors_with_hooks_are_refused() -> None:
    model = residual()
    plan = _plan(model)
    model.last.bias.register_hook(lambda gradient: None)
    resolve(plan, model)  # this one does not grow
    model.last.weight.register_hook(lambda gradient: None)
    with pytest.raises(PlanError, match="'last.weight' has tensor hooks"):
        resolve(plan, model)
    model = residual()
    model.last.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    with pytest.raises(PlanError, match="'last.weight' has tensor hooks"):
        resolve(plan, model)


def test_tensors_of_other_types_are_refused() -> None:
    class Quantised(nn.Parameter):
        pass

    model = residual()
    plan = _plan(model)
    model.last.weight = Quantised(model.last.weight.data)
    with pytest.raises(PlanError, match="tensor 'last.weight' of type Quantised"):
        resolve(plan, model)


@pytest.mark.report("R036")
def test_blocks_that_share_parameters_are_refused() -> None:
    model = residual()
    model.blocks[1].up.weight = model.blocks[0].up.weight
    plan = make_plan(discover(model, rows()), deepen={"blocks": 3})
    with pytest.raises(DepthError, match=r"block 'blocks.1' shares parameters"):
        resolve(plan, model)
    same = residual()
    same.blocks[1] = same.blocks[0]
    with pytest.raises(DepthError):
        resolve(make_plan(discover(same, rows()), deepen={"blocks": 3}), same)


@pytest.mark.report("R096")
def test_blocks_with_a_forward_of_their_own_are_refused() -> None:
    """A copy of such a block would go on calling the original."""
    model = residual()
    plan = make_plan(discover(model, rows()), {"first.weight[0]": 8}, {"blocks": 3})
    up = model.blocks[1].up
    original = up.forward
    up.forward = lambda x: 2 * original(x)
    with pytest.raises(DepthError, match=r"block 'blocks.1', in which 'blocks.1.up' has a forward of its own"):
        resolve(plan, model)
    resolve(replace(plan, depth=()), model)


def test_containers() -> None:
    assert container_of(residual(), "blocks")[1].up.out_features == 5
    for path in ("first", "nothing", "blocks.0"):
        with pytest.raises(DepthError, match=f"container '{path}'"):
            container_of(residual(), path)
