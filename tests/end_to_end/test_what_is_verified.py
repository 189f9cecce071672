"""Faults of a growth that its own verification has to see, and what is said of each."""

from collections.abc import Callable
from random import SystemRandom
from typing import Any

import pytest
import torch
from torch import nn

from growkit import grow
from growkit.errors import InputsError, VerificationError
from growkit.testing import randomise
from tests.growth.nets import Residual, mlp, picture, residual, rows


class Other(Residual):
    """Adds something to its output, from the hidden units of its first block."""

    def __init__(self, more: Callable[[Any, torch.Tensor], Any]):
        super().__init__()
        self.more = more

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.more(self, self.blocks[0].up(self.first(x)))


@pytest.mark.parametrize(
    ("more", "dtype"),
    [
        (lambda m, h: h.sum(-1, keepdim=True) if m.training else 0.0, torch.float64),
        (lambda m, h: h.float().sum(-1, keepdim=True) if m.training else 0.0, torch.float32),
    ],
)
def test_what_happens_in_train_mode_only_is_verified(more: Any, dtype: torch.dtype) -> None:
    model = randomise(Other(more).to(dtype))
    before = picture(model)
    with pytest.raises(VerificationError, match="train mode: NOT kept"):
        grow(model, widen={"blocks.0.up.weight[0]": 10}, method="copy", example_inputs=rows().to(dtype))
    assert picture(model) == before


def test_a_new_block_that_is_no_identity_in_train_mode_is_refused() -> None:
    class Raised(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + (0.5 if self.training else 0.0)

    model = residual()
    for block in model.blocks:
        block.down = Raised(5, 4).double()
    with pytest.raises(VerificationError, match="train mode: NOT kept"):
        grow(model, deepen={"blocks": 3}, example_inputs=rows())
    assert len(model.blocks) == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_sizes_used_as_numbers_are_what_is_asked_about_first(dtype: torch.dtype) -> None:
    model = randomise(Other(lambda m, h: len(list(range(m.blocks[0].up.out_features))) / 100).to(dtype))
    with pytest.raises(VerificationError, match="NOT kept") as error:
        grow(model, widen={"blocks.0.up.weight[0]": 6}, example_inputs=rows().to(dtype))
    assert error.value.next_step.startswith("most often, forward uses a size as a number, as in 0.5 * self.dim")


def test_a_model_that_is_random_in_eval_mode_is_called_so() -> None:
    model = randomise(Other(lambda m, h: SystemRandom().random()).double())
    with pytest.raises(VerificationError) as error:
        grow(model, widen={"blocks.0.up.weight[0]": 6}, example_inputs=rows())
    assert error.value.next_step.startswith("the model is random in eval mode")


def test_outputs_that_are_zero_throughout_verify_nothing() -> None:
    model = mlp()
    nn.init.zeros_(model[4].weight)
    nn.init.zeros_(model[4].bias)
    before = picture(model)
    with pytest.raises(InputsError, match="outputs are one number throughout"):
        grow(model, widen={"0.weight[0]": 8}, example_inputs=rows())
    assert picture(model) == before
