"""The convolution branch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from growkit.errors import SettingsError
from growkit.nn.convolution import ConvModule


def make(seed: int = 0) -> ConvModule:
    torch.manual_seed(seed)
    module = ConvModule(4, conv_channels=3, kernel_size=5).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
        module.batch_norm.running_mean.normal_()
        module.batch_norm.running_var.uniform_(0.5, 2.0)
    return module


def before_batch_norm(m: ConvModule, x: Tensor) -> Tensor:
    """`'time model' -> 'time channels'` for one sequence without padding, tap by tap."""
    variance = x.var(-1, unbiased=False, keepdim=True)
    x = (x - x.mean(-1, keepdim=True)) / (variance + m.norm.eps).sqrt() * m.norm.weight + m.norm.bias
    both = x @ m.pointwise1.weight.T + m.pointwise1.bias
    gated = both[:, :3] / (1 + (-both[:, 3:]).exp())
    rows = []
    for t in range(len(x)):
        row = m.depthwise.bias.clone()
        for tap in range(5):
            if 0 <= t + tap - 2 < len(x):
                row += m.depthwise.weight[:, 0, tap] * gated[t + tap - 2]
        rows.append(row)
    return torch.stack(rows)


def after_batch_norm(m: ConvModule, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    x = (x - mean) / (variance + m.batch_norm.eps).sqrt() * m.batch_norm.weight + m.batch_norm.bias
    return (x / (1 + (-x).exp())) @ m.pointwise2.weight.T + m.pointwise2.bias


X = torch.randn(2, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
LENGTHS = (6, 3)
VALID = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])


@torch.no_grad()
def test_equals_its_formula_in_eval() -> None:
    module = make().eval()
    found = module(X, VALID)
    for sequence, length in enumerate(LENGTHS):
        inner = before_batch_norm(module, X[sequence, :length])
        norm = module.batch_norm
        expected = after_batch_norm(module, inner, norm.running_mean, norm.running_var)
        assert torch.allclose(found[sequence, :length], expected, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_statistics_are_those_of_the_valid_frames() -> None:
    module = make().train()
    old_mean, old_variance = module.batch_norm.running_mean.clone(), module.batch_norm.running_var.clone()
    found = module(X, VALID)
    inner = [before_batch_norm(module, X[sequence, :length]) for sequence, length in enumerate(LENGTHS)]
    frames = torch.cat(inner)
    mean, variance = frames.mean(0), frames.var(0, unbiased=False)
    for sequence, length in enumerate(LENGTHS):
        expected = after_batch_norm(module, inner[sequence], mean, variance)
        assert torch.allclose(found[sequence, :length], expected, rtol=1e-12, atol=1e-12)
    assert torch.allclose(module.batch_norm.running_mean, 0.9 * old_mean + 0.1 * mean, rtol=1e-12)
    assert torch.allclose(module.batch_norm.running_var, 0.9 * old_variance + 0.1 * frames.var(0), rtol=1e-12)


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        ConvModule(4, conv_channels=4, kernel_size=4)
    assert caught.value.given == "kernel_size 4"
    assert "odd" in caught.value.allowed
    assert caught.value.next_step == "take 3 or 5"
