"""The oracle, by hand."""

import torch

from growkit.kernels.dense import dense


def test_by_hand() -> None:
    old = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    new = dense(old, [([1, 0, -1], [1.0, 10.0, 1.0]), ([0, 0], [0.25, 0.75])])
    assert dense(old, [None, ([1], [2.0])]).tolist() == [[4.0], [8.0]]
    assert new.tolist() == [[0.75, 2.25], [2.5, 7.5], [0.0, 0.0]]
