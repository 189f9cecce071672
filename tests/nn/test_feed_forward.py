"""The feed-forward branch."""

from __future__ import annotations

import torch

from growkit.nn.feed_forward import FeedForward


def test_equals_its_formula() -> None:
    torch.manual_seed(0)
    branch = FeedForward(4, 6).double()
    with torch.no_grad():
        for parameter in branch.parameters():
            parameter.normal_()
        x = torch.randn(2, 3, 4, dtype=torch.float64)
        variance = x.var(-1, unbiased=False, keepdim=True)
        normed = (x - x.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt() * branch.norm.weight + branch.norm.bias
        inner = normed @ branch.linear1.weight.T + branch.linear1.bias
        expected = (inner / (1 + (-inner).exp())) @ branch.linear2.weight.T + branch.linear2.bias
        assert torch.allclose(branch(x), expected, rtol=1e-12, atol=1e-12)


def test_drops_units_only_while_training() -> None:
    branch = FeedForward(4, 64, dropout=0.5)
    x = torch.randn(1, 1, 4)
    assert not torch.equal(branch(x), branch(x))
    branch.eval()
    assert torch.equal(branch(x), branch(x))
