"""What `check_optimizer` finds and refuses. It never changes anything."""

import copy

import pytest
import torch
from torch import nn

from growkit.errors import OptimizerError
from growkit.optim.adam import ADAM
from growkit.optim.check import Place, check_optimizer


def trained(kind: type[torch.optim.Optimizer], **options: object) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = kind(model.parameters(), lr=0.1, **options)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def refusal(optimizer: torch.optim.Optimizer, model: nn.Module) -> OptimizerError:
    """The error; checks that the optimizer is as before."""
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(OptimizerError) as caught:
        check_optimizer(optimizer, dict(model.named_parameters()))
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert str(after["state"]) == str(before["state"])
    return caught.value


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adam, {"amsgrad": True}),
        (torch.optim.AdamW, {"foreach": True}),
        (torch.optim.AdamW, {"fused": True}),
    ],
)
def test_owned_parameters_by_name(kind: type[torch.optim.Optimizer], options: dict[str, object]) -> None:
    model, optimizer = trained(kind, **options)
    checked = check_optimizer(optimizer, dict(model.named_parameters()))
    assert checked.owned == {
        "0.weight": Place(0, 0),
        "0.bias": Place(0, 1),
        "2.weight": Place(0, 2),
        "2.bias": Place(0, 3),
    }
    assert checked.foreign == ()


def test_foreign_parameters_are_listed_and_left_alone() -> None:
    model, other = nn.Linear(2, 2), nn.Parameter(torch.ones(5))
    optimizer = torch.optim.Adam([{"params": [other]}, {"params": [model.bias, nn.Parameter(torch.ones(2))]}])
    optimizer.state[other] = {"anything": torch.ones(9)}
    checked = check_optimizer(optimizer, dict(model.named_parameters()))
    assert checked.spec is ADAM
    assert checked.owned == {"bias": Place(1, 0)}
    assert checked.foreign == (Place(0, 0), Place(1, 1))
    assert str(checked.foreign[1]) == "param_groups[1]['params'][1]"
    assert list(optimizer.state) == [other]


def test_a_tied_parameter_has_its_first_name() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    parameters = dict(model.named_parameters(remove_duplicate=False))
    assert list(check_optimizer(torch.optim.SGD(model.parameters(), lr=1.0), parameters).owned) == [
        "0.weight",
        "0.bias",
        "1.bias",
    ]


def test_an_optimizer_without_rules() -> None:
    model, optimizer = trained(torch.optim.RMSprop)
    error = refusal(optimizer, model)
    assert error.given == "an optimizer of class torch.optim.rmsprop.RMSprop, which has no rules for its state"
    assert error.allowed.startswith("torch.optim.sgd.SGD, torch.optim.adam.Adam, torch.optim.adamw.AdamW")
    assert "growkit.optim.table.register(RMSprop, OptimizerSpec(" in error.next_step


def test_an_optimizer_with_none_of_the_parameters() -> None:
    _, optimizer = trained(torch.optim.Adam)
    error = refusal(optimizer, nn.Linear(2, 2))
    assert error.given == "Adam holds none of the model's parameters (it holds 4 others)"
    assert error.allowed == "an optimizer of at least one of the model's 2 parameters"
    assert "`parameters()`" in error.next_step


def test_an_unknown_state_key() -> None:
    model, optimizer = trained(torch.optim.Adam)
    optimizer.state[model[2].weight]["shadow"] = torch.ones(2, 4)
    error = refusal(optimizer, model)
    assert error.given == "Adam keeps a state 'shadow' of shape (2, 4) for 2.weight, which has no rule"
    assert error.allowed == "step, exp_avg, exp_avg_sq, max_exp_avg_sq"
    assert "register a subclass" in error.next_step


@pytest.mark.report("R046")
@pytest.mark.parametrize(
    ("key", "value", "shape", "expected"),
    [("exp_avg", torch.ones(3, 4), "(3, 4)", "(4, 3)"), ("step", torch.ones(1), "(1,)", "()")],
)
def test_a_state_of_another_shape(key: str, value: torch.Tensor, shape: str, expected: str) -> None:
    model, optimizer = trained(torch.optim.Adam)
    optimizer.state[model[0].weight][key] = value
    error = refusal(optimizer, model)
    assert error.given == f"Adam's state {key!r} for 0.weight has shape {shape}"
    assert error.allowed == f"{expected}, for a parameter of shape (4, 3)"
    assert "make the optimizer anew" in error.next_step


class Compressed(torch.Tensor):
    """Stands for a quantised or sharded slot."""

    def __deepcopy__(self, memo: object) -> "Compressed":
        return self


@pytest.mark.report("R053")
@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (torch.ones(4, 3, dtype=torch.uint8), "Tensor of torch.uint8"),
        (torch.ones(4, 3).as_subclass(Compressed), "Compressed of torch.float32"),
    ],
)
def test_a_state_of_an_unknown_type(value: torch.Tensor, stored: str) -> None:
    model, optimizer = trained(torch.optim.Adam)
    optimizer.state[model[0].weight]["exp_avg_sq"] = value
    error = refusal(optimizer, model)
    assert error.given == f"Adam's state 'exp_avg_sq' for 0.weight is a {stored}"
    assert error.allowed.startswith("plain tensors of floating-point numbers")


def test_a_parameter_listed_twice_is_refused() -> None:
    model = nn.Linear(3, 4)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = torch.optim.Adam([*model.parameters(), model.weight])
    error = refusal(optimizer, model)
    assert error.given == (
        "Adam holds weight twice: at param_groups[0]['params'][0] and at param_groups[0]['params'][2]"
    )
    assert "each parameter once" in error.allowed
