"""The table of sinusoids."""

from __future__ import annotations

from math import cos, sin

import pytest
import torch

from growkit.nn.positions import RelativePositions


@pytest.mark.parametrize("dim", [1, 4, 5])
def test_rows_are_the_offsets_from_far_past_to_far_future(dim: int) -> None:
    table = RelativePositions(dim)(torch.zeros(2, 3, 7, dtype=torch.float64))
    assert table.shape == (5, dim)
    for row, offset in enumerate([2, 1, 0, -1, -2]):
        for column in range(dim):
            angle = offset / 10000 ** (2 * (column // 2) / dim)
            assert table[row, column].item() == pytest.approx(cos(angle) if column % 2 else sin(angle), abs=1e-15)


def test_is_rounded_only_once_to_the_type_of_the_features() -> None:
    x = torch.zeros(1, 1000, 1)
    exact = RelativePositions(6)(x.double())
    for dtype in (torch.float32, torch.bfloat16):
        assert torch.equal(RelativePositions(6)(x.to(dtype)), exact.to(dtype))
