"""Which parameters make a block the identity, read off forwards written by hand; and what cannot be made zero."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.discovery.discover import discover
from growkit.growth.replace import identity_block
from growkit.testing import randomise

X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Forward = Callable[[nn.Module, Tensor], Tensor]


class HandNorm(nn.Module):
    """A root mean square norm written by hand; `offset` is added to its gain."""

    def __init__(self, offset: float = 0.0):
        super().__init__()
        self.weight, self.offset = nn.Parameter(torch.ones(4)), offset

    def forward(self, x: Tensor) -> Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return normed * self.weight if self.offset == 0 else normed * (self.offset + self.weight)


class HandLayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * (centred / (centred.square().mean(-1, keepdim=True).sqrt() + 1e-6)) + self.bias


class Block(nn.Module):
    """A block whose forward is given, and what it may use."""

    def __init__(self, forward: Forward):
        super().__init__()
        self.norm, self.post, self.rms = nn.LayerNorm(4), nn.LayerNorm(4), nn.RMSNorm(4)
        self.hand, self.gemma, self.hand_layer = HandNorm(), HandNorm(1.0), HandLayerNorm()
        self.plain, self.batch = nn.LayerNorm(4, elementwise_affine=False), nn.BatchNorm1d(3)
        self.up, self.gate, self.down = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 4, bias=False)
        self.lin, self.gamma, self.drop = nn.Linear(4, 4), nn.Parameter(torch.ones(4)), nn.Dropout(0.3)
        self.heads, self.conv = nn.MultiheadAttention(4, 2, batch_first=True), nn.Conv1d(4, 4, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(()))
        self.call = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self, x)


class Net(nn.Module):
    def __init__(self, forward: Forward):
        super().__init__()
        self.enter, self.blocks, self.leave = nn.Linear(4, 4), nn.ModuleList([Block(forward)]), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)


def swiglu(b: nn.Module, x: Tensor) -> Tensor:
    return b.down(F.silu(b.gate(x)) * b.up(x))


def written_through_a_view(b: nn.Module, x: Tensor) -> Tensor:
    y = x + b.lin(x)
    y[..., :2] += 1.0
    return y


def in_two_steps(b: nn.Module, x: Tensor) -> Tensor:
    y = x.clone()
    y += b.lin(x)
    y += b.down(b.up(x))
    return y


LIN = ("lin.weight", "lin.bias")
IDENTITIES: dict[str, tuple[Forward, tuple[str, ...]]] = {
    "a layer": (lambda b, x: x + b.lin(b.norm(x)), LIN),
    "a layer without bias": (lambda b, x: x + b.down(b.up(x)), ("down.weight",)),
    "two branches": (lambda b, x: (x + b.lin(x)) + b.down(b.up(x)), ("down.weight", *LIN)),
    "written in place": (in_two_steps, ("down.weight", *LIN)),
    "gated": (lambda b, x: x + swiglu(b, x), ("down.weight",)),
    "gated at the end": (lambda b, x: x + b.lin(x) * b.lin(x).sigmoid(), LIN),
    "dropout, scale, activation": (lambda b, x: x - 0.5 * b.drop(F.gelu(b.lin(x))), LIN),
    "layer scale": (lambda b, x: x + b.gamma * b.lin(x), LIN),
    "masked": (lambda b, x: x + b.lin(x).masked_fill(x > 0, 0.0), LIN),
    "times the input": (lambda b, x: x + b.lin(x) * x, LIN),
    "attention": (lambda b, x: x + b.heads(x, x, x)[0], ("heads.out_proj.weight", "heads.out_proj.bias")),
    "convolution": (lambda b, x: x + b.conv(x.transpose(1, 2)).transpose(1, 2), ("conv.weight", "conv.bias")),
    "post norm": (lambda b, x: x + b.post(b.lin(b.norm(x))), ("post.weight", "post.bias")),
    "post norm, scaled": (lambda b, x: x + b.gamma * b.post(b.lin(x)), ("post.weight", "post.bias")),
    "post root mean square": (lambda b, x: x + b.rms(b.lin(b.norm(x))), ("rms.weight",)),
    "post norm by hand": (lambda b, x: x + b.hand(b.lin(b.norm(x))), ("hand.weight",)),
    "post norm with one plus a gain": (lambda b, x: x + b.gemma(b.lin(b.norm(x))), ("gemma.weight",)),
    "post layer norm by hand": (lambda b, x: x + b.hand_layer(b.lin(x)), ("hand_layer.weight", "hand_layer.bias")),
    "post batch norm": (lambda b, x: x + b.batch(b.lin(x)), ("batch.weight", "batch.bias")),
    "norm and two parameters": (lambda b, x: x + b.lin(x) + b.gamma * b.norm(x), ("norm.weight", "norm.bias", *LIN)),
    "gated norm": (lambda b, x: x + torch.sigmoid(b.lin(x)) * b.norm(x), ("norm.weight", "norm.bias")),
    "zero gain": (lambda b, x: x + b.scale * torch.tanh(x), ("scale",)),
    "concatenated": (lambda b, x: x + torch.cat([b.lin(x)[..., :2], b.lin(x)[..., 2:]], -1), LIN),
    "a bias of its own": (lambda b, x: x + b.lin(x) + b.gamma, ("gamma", *LIN)),
}


@pytest.mark.parametrize("name", IDENTITIES)
@pytest.mark.parametrize("training", [False, True])
def test_the_block_returns_its_input_bit_for_bit(name: str, training: bool) -> None:
    forward, silenced = IDENTITIES[name]
    model = randomise(Net(forward).double())
    (block,) = discover(model, X).blocks
    assert block.obstacle == ""
    assert block.residual
    assert block.silenced == {name: -1.0 if name == "gemma.weight" else 0.0 for name in silenced}
    copy = identity_block(model.blocks[0], block.silenced, block.tail).train(training)
    assert torch.equal(copy(X), X)
    # all of it can learn: what is zero has a gradient
    for parameter in copy.parameters():
        parameter.grad = None
    copy(X).square().sum().backward()
    gradients = {n: p.grad for n, p in copy.named_parameters() if n in silenced}
    assert any(g is not None and g.any() for g in gradients.values())


OBSTACLES: dict[str, tuple[Forward, str]] = {
    "an activation of the input": (lambda b, x: x + b.lin(x) + 0.1 * torch.tanh(x), "blocks.0 (tanh)"),
    "the input twice": (lambda b, x: x + x + b.lin(x), "blocks.0 (add)"),
    "twice, at the end": (lambda b, x: x + b.lin(x) + x, "blocks.0 (add)"),
    "a gate beside a product": (lambda b, x: x + b.lin(x) * x + torch.sigmoid(x), "blocks.0 (sigmoid)"),
    "sigmoid of a layer": (lambda b, x: x + torch.sigmoid(b.lin(x)), "blocks.0 (sigmoid)"),
    "a constant": (lambda b, x: x + b.lin(x) + 1.0, "blocks.0 (add)"),
    "a norm without gain": (lambda b, x: x + b.plain(b.lin(x)), "blocks.0.plain"),
    "one plus a gain, and the gain": (lambda b, x: x + b.gemma(b.lin(x)) + b.gemma.weight, "gemma.weight"),
    "divided by what may be zero": (lambda b, x: x + b.lin(x) / b.lin(x).norm(dim=-1, keepdim=True), "blocks.0 (div)"),
    "masked by a number": (lambda b, x: x + b.lin(x).masked_fill(x > 0, 1.0), "blocks.0 (masked_fill)"),
    "softmax": (lambda b, x: x + b.lin(x).softmax(-1), "blocks.0 (_softmax)"),
    "written through a view": (written_through_a_view, ""),
    "a narrower type": (lambda b, x: x.half() + b.lin(x), ""),
    "another shape": (lambda b, x: x[:1] * 0 + x.sum(0, keepdim=True) * 0 + (x + b.lin(x)[None])[0], ""),
    "clamped away from zero": (lambda b, x: x + b.lin(x).clamp(min=0.1), "blocks.0 (clamp)"),
    "a parameter of the model": (lambda b, x: x + b.lin(x) + b.outer[0], "blocks.0 (add)"),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_cannot_be_zero_is_named(name: str) -> None:
    forward, where = OBSTACLES[name]
    model = randomise(Net(forward).double())
    model.extra = nn.Parameter(torch.ones(4, dtype=torch.float64))
    model.blocks[0].outer = [model.extra]
    (block,) = discover(model, X).blocks
    assert block.silenced == {}
    if where:
        assert block.residual
        assert where in block.obstacle
    else:
        assert block.obstacle or not block.residual


def test_blocks_in_parallel_are_no_chain() -> None:
    class Parallel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(IDENTITIES["a layer"][0]) for _ in range(2)])

        def forward(self, x: Tensor) -> Tensor:
            return self.blocks[0](x) + self.blocks[1](x)

    first, second = discover(Parallel().double(), X).blocks
    assert first.obstacle == ""
    assert second.obstacle == "passes on something else than what the block before it returned"
