"""Moving batches to a device."""

from collections import namedtuple
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pack_sequence

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


@dataclass(frozen=True)
class Sample:
    x: torch.Tensor
    name: str


def test_dataclasses_and_packed_sequences_are_moved() -> None:
    batch = moved((Sample(torch.zeros(2), "a"), pack_sequence([torch.zeros(2)])), torch.device("meta"))
    assert batch[0].x.device.type == "meta"
    assert batch[0].name == "a"
    assert batch[1].data.device.type == "meta"
    assert batch[1].batch_sizes.device.type == "cpu", "torch asks for it"
