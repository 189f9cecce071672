"""Wrappers that are refused."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from growkit.errors import EngineError
from growkit.train.runtime import Runtime


def test_a_wrapper_that_copies_or_forgets_to_return_is_refused(make_net: Callable[..., nn.Module]) -> None:
    for wrap, message in (
        (lambda net: make_net(), "without 4 of the model's parameters"),
        (print, "wrap returned None"),
    ):
        runtime = Runtime(wrap=wrap)
        runtime.bind(make_net(), lambda model: torch.optim.Adam(model.parameters()))
        with pytest.raises(EngineError, match=message):
            runtime.rebuild()
