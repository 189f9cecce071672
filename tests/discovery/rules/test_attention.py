"""Tests of the rule of attention kernels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.discovery.discover import discover
from tests.discovery.models import Small, X, passages, reasons


def _model(**options: object) -> Small:
    def run(m: Small, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (m.heads, -1)).transpose(1, 2) for f in (m.q, m.k, m.v))
        return F.scaled_dot_product_attention(q, k, v, **options)

    return Small(run, q=nn.Linear(5, 6), k=nn.Linear(5, 6), v=nn.Linear(5, 8), heads=2)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"attn_mask": torch.zeros(7, 7, dtype=torch.float64)}, {"scale": 0.5}]
)
def test_heads_and_their_dims(options: dict[str, object]) -> None:
    table = discover(_model(**options), X)
    assert str(table.layouts["k.bias"]) == "(q.weight[0].0 q.weight[0].1):produces"
    assert str(table.layouts["v.bias"]) == "(q.weight[0].0 v.weight[0].1):produces"
    assert "per_head" in passages(table, "q.weight[0].0")
    assert "contracted_activations" in passages(table, "q.weight[0].1")
    assert "contracted_activations" not in passages(table, "v.weight[0].1")
    assert ("size_as_number" in passages(table, "q.weight[0].1")) == ("scale" not in options)
    assert reasons(table, "q.weight[0].0") == []
    assert "contracted" in " ".join(reasons(table, "q.weight[0].1"))
