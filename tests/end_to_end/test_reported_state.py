"""Faults that users of other tools reported of optimizer state: each the smallest case, and what growkit does."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import ASGD, LBFGS, Adadelta, Adafactor, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop, Rprop
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from growkit import Insert, Plan, discover, grow, make_plan
from growkit.errors import OptimizerError
from growkit.testing import randomise
from tests.growth.nets import picture, plain, residual, rows, train

WIDEN: dict[str, int | float] = {"first.weight[0]": 8, "blocks.0.up.weight[0]": 7}
GROWTH: dict[str, Any] = {"widen": WIDEN, "deepen": {"blocks": Insert(at=[1])}, "example_inputs": rows()}


def _names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[list[str]]:
    names = {id(p): name for name, p in model.named_parameters()}
    return [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]


@pytest.mark.report("R046")
def test_state_of_a_smaller_model_is_refused_with_both_shapes() -> None:
    small, large = residual(hidden=4), residual(hidden=6)
    optimizers = [Adam(model.parameters()) for model in (small, large)]
    train(small, optimizers[0])
    optimizers[1].load_state_dict(optimizers[0].state_dict())
    before = picture(large, [optimizers[1]])
    with pytest.raises(OptimizerError) as error:
        grow(large, optimizers=optimizers[1], **GROWTH)
    assert error.value.given == "Adam's state 'exp_avg' for blocks.0.up.weight has shape (4, 4)"
    assert error.value.allowed == "(6, 4), for a parameter of shape (6, 4)"
    assert picture(large, [optimizers[1]]) == before


@pytest.mark.report("R047")
def test_any_order_of_the_parameters_is_kept() -> None:
    """A parameter keeps its place, whatever order the groups were built in; its state is that of its name."""
    model = residual()
    names = [name for name, _ in model.named_parameters()]
    shuffled = [names[i] for i in torch.randperm(len(names), generator=torch.Generator().manual_seed(1))]
    parameters = dict(model.named_parameters())
    optimizer, plainly = Adam([parameters[name] for name in shuffled]), copy.deepcopy(model)
    reference = Adam(plainly.parameters())
    for net, adam in ((model, optimizer), (plainly, reference)):
        train(net, adam)
        grow(net, widen=WIDEN, optimizers=adam, example_inputs=rows())
    assert _names(model, optimizer) == [shuffled]
    for (name, one), (other_name, other) in zip(model.named_parameters(), plainly.named_parameters(), strict=True):
        assert name == other_name
        assert plain(dict(optimizer.state[one])) == plain(dict(reference.state[other])), name


@pytest.mark.report("R049")
def test_the_optimizer_moves_what_was_replaced_and_one_left_out_is_noticed() -> None:
    model = residual()
    optimizer, forgotten = Adam(model.parameters()), Adam(model.parameters())
    grow(model, optimizers=optimizer, **GROWTH)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    train(model, optimizer)
    assert not [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
    report = grow(model, widen={"first.weight[0]": 16}, optimizers=forgotten, example_inputs=rows())
    assert "first.weight" in report.unoptimized
    assert "in no given optimizer: first.weight" in str(report)


@pytest.mark.report("R052")
@pytest.mark.report("R058")
def test_moments_keep_a_dtype_of_their_own() -> None:
    model = residual().float()
    optimizer = Adam(model.parameters())
    (model(rows().float()) - 1).square().mean().backward()
    optimizer.step()
    for state in optimizer.state.values():
        state["exp_avg"], state["exp_avg_sq"] = state["exp_avg"].bfloat16(), state["exp_avg_sq"].bfloat16()
    grow(model, optimizers=optimizer, **GROWTH | {"example_inputs": rows().float()})
    assert len(optimizer.state) == 6 * 2 + 4
    for parameter, state in optimizer.state.items():
        assert parameter.dtype == torch.float32
        assert {state[key].dtype for key in ("exp_avg", "exp_avg_sq")} == {torch.bfloat16}
        assert state["exp_avg"].shape == parameter.shape


OTHERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    *(Adagrad, Adadelta, Adamax, Rprop, NAdam, RAdam, ASGD, RMSprop, Adafactor),
    lambda parameters: RMSprop(parameters, centered=True, momentum=0.9),
    LBFGS,
]


@pytest.mark.report("R055")
@pytest.mark.report("R062")
@pytest.mark.parametrize("make", OTHERS)
def test_no_keys_are_guessed(make: Callable[[Any], torch.optim.Optimizer]) -> None:
    """An optimizer without rules is refused before anything is touched, whatever its keys are called."""
    model = residual()
    optimizer = make(model.parameters())
    if not isinstance(optimizer, LBFGS):
        train(model, optimizer, 1)
    before = picture(model, [optimizer])
    with pytest.raises(OptimizerError, match="which has no rules for its state"):
        grow(model, optimizers=optimizer, **GROWTH)
    assert picture(model, [optimizer]) == before


@pytest.mark.report("R064")
def test_settings_of_each_group_are_kept() -> None:
    model = residual()
    groups = [
        {"params": list(model.first.parameters()), "foreach": True, "lr": 0.1},
        {"params": list(model.blocks.parameters()), "fused": True, "betas": (0.5, 0.7), "amsgrad": True},
        {"params": list(model.last.parameters()), "capturable": False, "weight_decay": 0.1, "of_the_user": [1]},
    ]
    optimizer = AdamW(groups)
    train(model, optimizer)
    before = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    grow(model, optimizers=optimizer, **GROWTH)
    assert [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups] == before
    assert all("max_exp_avg_sq" in optimizer.state[p] for p in model.blocks[0].parameters())
    train(model, optimizer)


@pytest.mark.report("R066")
@pytest.mark.parametrize("make", [Adam, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)])
def test_a_parameter_that_never_had_a_gradient_has_no_state_afterwards(make: Callable[..., Any]) -> None:
    model = residual()
    optimizer = make(model.parameters())
    optimizer.zero_grad()
    model.first(rows()).square().mean().backward()
    optimizer.step()
    assert len(optimizer.state) == 2
    grow(model, optimizers=optimizer, **GROWTH)
    assert set(optimizer.state) == {model.first.weight, model.first.bias}
    train(model, optimizer)
    assert set(optimizer.state) == set(model.parameters())
    assert all(state["exp_avg"].shape == p.shape for p, state in optimizer.state.items() if "exp_avg" in state)


@pytest.mark.report("R069")
@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_the_fused_step_takes_what_a_growth_made(kind: type[torch.optim.Optimizer]) -> None:
    """Convolutions with the channels last: the same steps as by the plain kernel."""

    def run(fused: bool) -> list[Tensor]:
        layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)]
        model = randomise(nn.Sequential(*layers).double()).to(memory_format=torch.channels_last)
        optimizer = kind(model.parameters(), lr=0.01, fused=fused)  # type: ignore[call-arg]
        x = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        for number in range(4):
            if number == 2:
                grow(model, widen={"0.weight[0]": 7}, optimizers=optimizer, example_inputs=x)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        for parameter in model[0].weight, model[2].weight:
            slots = [optimizer.state[parameter][key] for key in ("exp_avg", "exp_avg_sq")]
            assert all(t.is_contiguous(memory_format=torch.channels_last) for t in (parameter, *slots))
        return [p.detach() for p in model.parameters()]

    for fused, reference in zip(run(True), run(False), strict=True):
        torch.testing.assert_close(fused, reference, rtol=1e-10, atol=1e-12)


@pytest.mark.report("R073")
@pytest.mark.report("R074")
def test_a_growth_adds_no_group_so_lists_of_schedulers_stay_true() -> None:
    courses = []
    for growing in (False, True):
        model = residual()
        groups = [{"params": list(model.first.parameters())}, {"params": list(model.blocks.parameters()), "lr": 0.2}]
        optimizer = Adam(groups, lr=0.1)
        plateau = ReduceLROnPlateau(optimizer, factor=0.5, patience=0, min_lr=[0.04, 0.01])
        course = []
        for step in range(7):
            if growing and step == 2:
                grow(model, optimizers=optimizer, **GROWTH)
            train(model, optimizer, 1, step)
            plateau.step(1.0)
            course.append([group["lr"] for group in optimizer.param_groups])
        courses.append(course)
    assert courses[0] == courses[1]
    assert courses[0][-1] == [0.04, 0.01]
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas"):
        LambdaLR(optimizer, [lambda step: 1.0])


@pytest.mark.report("R075")
def test_the_state_of_a_grown_run_loads_into_a_replayed_model() -> None:
    """Groups are found again by the rule that made them; the next steps are the same bit for bit."""

    def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
        matrices = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() == 1]
        return AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=0.01)

    model = residual()
    plan = make_plan(discover(model, rows()), WIDEN, GROWTH["deepen"])
    optimizer = optimizer_of(model)
    train(model, optimizer)
    grow(model, plan, optimizers=optimizer, example_inputs=rows())
    train(model, optimizer)
    again = residual()
    grow(again, Plan.from_json(plan.to_json()))
    again.load_state_dict(model.state_dict())
    restored = optimizer_of(again)
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert _names(again, restored) == _names(model, optimizer)
    assert train(again, restored) == train(model, optimizer)
    assert plain(again.state_dict()) == plain(model.state_dict())
