"""Attention against the formula of the paper, entry by entry."""

from __future__ import annotations

from math import cos, exp, sin, sqrt

import pytest
import torch
from torch import Tensor

from growkit.nn.attention import SelfAttention, relative_shift
from growkit.nn.positions import RelativePositions


def make(model_dim: int, num_heads: int, head_dim: int, position_dim: int) -> SelfAttention:
    torch.manual_seed(0)
    attention = SelfAttention(model_dim, num_heads=num_heads, head_dim=head_dim, position_dim=position_dim).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_()
    return attention


def sinusoids(offset: int, dim: int) -> Tensor:
    def entry(column: int) -> float:
        angle = offset / 10000 ** ((column - column % 2) / dim)
        return cos(angle) if column % 2 else sin(angle)

    return torch.tensor([entry(column) for column in range(dim)], dtype=torch.float64)


def reference(a: SelfAttention, x: Tensor, length: int, heads: int, dim: int, value_dim: int) -> Tensor:
    """Dai et al. 2019, section 3.3, for one sequence `x: 'time model'`, frame by frame and head by head."""
    centred = x - x.mean(-1, keepdim=True)
    x = centred / (x.var(-1, unbiased=False, keepdim=True) + a.norm.eps).sqrt() * a.norm.weight + a.norm.bias
    rows = []
    for i in range(len(x)):
        context = []
        for h in range(heads):
            here, there = slice(h * dim, (h + 1) * dim), slice(h * value_dim, (h + 1) * value_dim)
            q = a.query.weight[here] @ x[i] + a.query.bias[here]
            weights, values = [], []
            for j in range(length):
                k = a.key.weight[here] @ x[j] + a.key.bias[here]
                r = a.position.weight[here] @ sinusoids(i - j, a.position.in_features)
                score = (q @ k + q @ r + a.pos_bias_u[h] @ k + a.pos_bias_v[h] @ r) / sqrt(dim)
                weights.append(exp(score))
                values.append(a.value.weight[there] @ x[j] + a.value.bias[there])
            mixed = sum(w * v for w, v in zip(weights, values, strict=True))
            context.append(mixed / sum(weights))
        rows.append(a.out.weight @ torch.cat(context) + a.out.bias)
    return torch.stack(rows)


@pytest.mark.parametrize("sizes", [(6, 2, 3, 6), (4, 1, 5, 3), (3, 4, 2, 7)])
def test_equals_the_paper(sizes: tuple[int, int, int, int]) -> None:
    attention = make(*sizes)
    x = torch.randn(2, 5, sizes[0], dtype=torch.float64)
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    with torch.no_grad():
        found = attention(x, RelativePositions(sizes[3])(x), valid)
        for sequence, length in ((0, 5), (1, 3)):
            expected = reference(attention, x[sequence], length, sizes[1], sizes[2], sizes[2])
            assert torch.allclose(found[sequence], expected, rtol=1e-12, atol=1e-12)


def test_values_have_a_head_dim_of_their_own() -> None:
    attention = make(4, 2, 3, 4)
    attention.value = torch.nn.Linear(4, 2 * 5).double()
    attention.out = torch.nn.Linear(2 * 5, 4).double()
    x = torch.randn(1, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        found = attention(x, RelativePositions(4)(x), torch.ones(1, 4, dtype=torch.bool))
        assert torch.allclose(found[0], reference(attention, x[0], 4, 2, 3, 5), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("time", [1, 2, 5])
def test_relative_shift_picks_the_offset(time: int) -> None:
    score = torch.randn(2, 3, time, 2 * time - 1)
    shifted = relative_shift(score)
    assert shifted.shape == (2, 3, time, time)
    for i in range(time):
        for j in range(time):
            assert torch.equal(shifted[:, :, i, j], score[:, :, i, time - 1 - (i - j)])
