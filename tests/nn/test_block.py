"""One Conformer block."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from growkit.nn.block import ConformerBlock
from growkit.nn.positions import RelativePositions


def make() -> ConformerBlock:
    torch.manual_seed(0)
    block = ConformerBlock(
        4, ffn_dim=6, num_heads=2, head_dim=3, conv_channels=5, position_dim=4, kernel_size=3
    ).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_()
    return block.eval()


@torch.no_grad()
def test_adds_the_branches_in_the_order_of_the_paper() -> None:
    block, x, valid = make(), torch.randn(2, 5, 4, dtype=torch.float64), torch.ones(2, 5, dtype=torch.bool)
    positions = RelativePositions(4)(x)
    expected = x + block.feed_forward1(x) / 2
    expected = expected + block.attention(expected, positions, valid)
    expected = expected + block.convolution(expected, valid)
    expected = expected + block.feed_forward2(expected) / 2
    expected = F.layer_norm(expected, (4,), block.final_norm.weight, block.final_norm.bias)
    assert torch.allclose(block(x, positions, valid), expected, rtol=1e-14)


@torch.no_grad()
def test_is_the_identity_with_zero_branches_and_no_final_norm() -> None:
    block, x, valid = make(), torch.randn(2, 5, 4, dtype=torch.float64), torch.ones(2, 5, dtype=torch.bool)
    block.final_norm = nn.Identity()
    for last in (
        block.feed_forward1.linear2,
        block.attention.out,
        block.convolution.pointwise2,
        block.feed_forward2.linear2,
    ):
        last.weight.zero_()
        last.bias.zero_()
    assert torch.equal(block(x, RelativePositions(4)(x), valid), x)
