"""Tests of packed sequences, and of recurrent layers taken apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from growkit.discovery.discover import discover
from tests.discovery.models import Small, X, reasons


def test_packing_keeps_features() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(pack_padded_sequence(m.a(x), torch.tensor([7, 3]), batch_first=True).data)

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert str(table.layouts["b.weight"]) == "b.weight[0]:produces a.weight[0]:consumes"
    assert reasons(table, "a.weight[0]") == []


def test_packing_over_an_axis_of_a_parameter_locks_it() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return pack_padded_sequence(m.a(x).transpose(1, 2), torch.tensor([4, 2]), batch_first=True).data

    assert reasons(discover(Small(run, a=nn.Linear(5, 4)), X), "a.weight[0]")[0] == "sequences are packed over it"


def test_gates_are_blocks_of_units_also_in_single_precision() -> None:
    """In float32 torch would run the whole layer as one kernel, which hides the gates."""
    for layer, gates in ((nn.LSTM(5, 4), 4), (nn.GRU(5, 4), 3)):
        model = nn.Sequential(layer)
        for run in (model, model.double()):
            table = discover(run, X.to(layer.weight_ih_l0.dtype))
            unit = "0.weight_ih_l0[0].0"
            assert str(table.layouts["0.weight_hh_l0"]) == f"[{'|'.join([unit] * gates)}]:produces {unit}:consumes"
