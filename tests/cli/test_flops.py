"""FLOPs against counts by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from growkit.cli.flops import StepFlops, step_flops
from growkit.cli.vowels import Batch

BATCH = Batch(torch.randn(4, 3, 12), torch.tensor([3, 3, 2, 1]), torch.tensor([0, 1, 2, 8]))


class TwoLayers(nn.Module):
    """`'batch time 12' -> 'batch 9'`, on the first frame alone."""

    def __init__(self, hidden: int):
        super().__init__()
        self.up, self.drop, self.down = nn.Linear(12, hidden), nn.Dropout(0.5), nn.Linear(hidden, 9)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        return self.down(self.drop(self.up(features[:, 0])))


def by_hand(hidden: int) -> int:
    """2 FLOPs a multiplication: both layers forward, both weight gradients, and the gradient of the hidden units."""
    up, down = 4 * 12 * hidden, 4 * hidden * 9
    return 2 * ((up + down) + (up + down) + down)


def test_one_step() -> None:
    assert step_flops(TwoLayers(5), BATCH) == by_hand(5)


def test_model_and_random_numbers_stay() -> None:
    model = TwoLayers(5).eval()
    torch.manual_seed(1)
    step_flops(model, BATCH)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(3))
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


HALF = Batch(*(tensor[:2] for tensor in BATCH))


def test_sizes_and_shapes_are_told_apart() -> None:
    flops = StepFlops()
    for _ in range(2):
        assert flops(TwoLayers(5), BATCH) == by_hand(5)
        assert flops(TwoLayers(7), BATCH) == by_hand(7)
        assert flops(TwoLayers(5), HALF) == by_hand(5) // 2


def test_steps_until_the_flops_are_reached() -> None:
    """A batch, half of one, a batch: 2, 3 and 5 halves."""
    half = by_hand(5) // 2
    worth = [
        StepFlops().steps_worth(flops, TwoLayers(5), [BATCH, HALF, BATCH])
        for flops in (1, 2 * half, 2 * half + 1, 3 * half, 5 * half)
    ]
    assert worth == [1, 1, 2, 2, 3]
