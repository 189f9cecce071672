"""Moving batches to a device."""

from collections import namedtuple

import torch

from growkit.train.placement import moved


def test_tensors_anywhere_in_a_batch_are_moved() -> None:
    pair = namedtuple("pair", "x y")
    tensor = torch.zeros(2)
    given = {"a": tensor, "b": [tensor, "text", 3], "c": pair(tensor, (tensor,))}
    batch = moved(given, torch.device("meta"))
    tensors = [batch["a"], batch["b"][0], batch["c"].x, batch["c"].y[0]]
    assert [tensor.device.type for tensor in tensors] == ["meta"] * 4
    assert batch["b"][1:] == ["text", 3]
    assert moved(given, None) is given
