"""What callbacks return."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit.errors import EngineError, SettingsError
from growkit.train.step_return import StepCallbackReturn, merge_returns


def test_an_empty_return_asks_for_nothing() -> None:
    empty = StepCallbackReturn()
    assert (empty.updated_model, empty.config_updates, empty.optimizer_state, empty.parameter_map) == (
        None,
        {},
        "transfer",
        None,
    )


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ({"updated_model": "net"}, "updated_model is a str"),
        ({"config_updates": [("learning_rate", 1)]}, "config_updates is a list"),
        ({"optimizer_state": "keep"}, "optimizer_state='keep'"),
    ],
)
def test_a_wrong_field_is_refused(fields: dict[str, object], given: str) -> None:
    with pytest.raises(EngineError) as caught:
        StepCallbackReturn(**fields)
    assert caught.value.given == given


def test_merging_says_all_that_both_say() -> None:
    model = nn.Linear(1, 1)
    merged = merge_returns(
        [
            StepCallbackReturn(updated_model=model, config_updates={"learning_rate": 0.1}),
            StepCallbackReturn(config_updates={"log_every": 5, "learning_rate": 0.1}),
        ]
    )
    assert merged is not None
    assert merged.updated_model is model
    assert merged.config_updates == {"learning_rate": 0.1, "log_every": 5}


def test_merging_keeps_the_way_to_hand_the_state_over() -> None:
    change = StepCallbackReturn(updated_model=nn.Linear(1, 1), optimizer_state="reset", parameter_map={"a": "b"})
    merged = merge_returns([change, StepCallbackReturn(config_updates={"log_every": 5})])
    assert merged is not None
    assert (merged.optimizer_state, merged.parameter_map) == ("reset", {"a": "b"})


def test_merging_nothing_is_nothing_and_one_is_itself() -> None:
    one = StepCallbackReturn()
    assert merge_returns([]) is None
    assert merge_returns([one]) is one


def test_two_models_are_refused() -> None:
    with pytest.raises(EngineError, match="a service changed the model, and the callback returned another one"):
        merge_returns([StepCallbackReturn(updated_model=nn.Linear(1, 1)) for _ in range(2)])


def test_two_values_of_one_setting_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"learning_rate is set to 0\.1 and to 0\.2"):
        merge_returns([StepCallbackReturn(config_updates={"learning_rate": rate}) for rate in (0.1, 0.2)])


def test_one_value_given_twice_is_one_whatever_its_type() -> None:
    tensors = [torch.zeros(2)]
    one = StepCallbackReturn(config_updates={"train_data": tensors, "batch_size": 4})
    other = StepCallbackReturn(config_updates={"train_data": tensors, "batch_size": 4})
    merged = merge_returns([one, other])
    assert merged is not None
    assert merged.config_updates == {"train_data": tensors, "batch_size": 4}
    with pytest.raises(SettingsError, match="train_data is set to"):
        merge_returns([one, StepCallbackReturn(config_updates={"train_data": [torch.zeros(2)]})])


def test_merging_keeps_new_optimizers_and_refuses_two(make_net: Any) -> None:
    optimizers = [torch.optim.SGD(make_net().parameters(), lr=0.1) for _ in range(2)]
    first, second = (StepCallbackReturn(optimizers=one) for one in optimizers)
    merged = merge_returns([first, StepCallbackReturn(config_updates={"log_every": 5})])
    assert merged is not None
    assert merged.optimizers is optimizers[0]
    with pytest.raises(EngineError, match="two new optimizers of one callback"):
        merge_returns([first, second])
