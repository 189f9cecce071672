"""From features to loops."""

from typing import Any

import pytest
import torch

from growkit.errors import EngineError
from growkit.train.compose import chain_text, check_features


def test_the_chain_names_every_loop(make_engine: Any) -> None:
    assert chain_text(make_engine()._loop) == "FitLoop -> EpochLoop -> AutomaticFlow"


def yielding(model, batch):
    yield model(batch)


@pytest.mark.parametrize(
    ("train_step", "optimizers", "given"),
    [
        (len, {"generator": 1, "discriminator": 2}, "optimizers is a dict of 2"),
        (len, [1], "optimizers is a list of 1"),
        (yielding, len, "train_step 'yielding' yields"),
        (None, len, "train_step is a NoneType"),
    ],
)
def test_what_no_chain_can_run_is_refused(train_step: Any, optimizers: Any, given: str) -> None:
    with pytest.raises(EngineError) as caught:
        check_features(train_step, optimizers)
    assert caught.value.given == given


def test_one_optimizer_is_no_collection() -> None:
    check_features(len, torch.optim.SGD([torch.zeros(1)], lr=0.1))


def test_a_train_step_with_an_unknown_parameter_is_refused(make_engine: Any) -> None:
    with pytest.raises(EngineError, match="train_step '<lambda>' asks for 'bach'") as caught:
        make_engine(train_step=lambda model, bach: model(bach))
    assert caught.value.next_step == "rename the parameter to 'batch'"
