"""Blocks inserted by hand."""

import copy

import pytest
import torch
from torch import Tensor, nn

from growkit.errors import DepthError
from growkit.nn import ConformerEncoder
from growkit.ops import deepen
from growkit.testing import assert_function_preserved, randomise


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 6), nn.Linear(6, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def test_conformer_blocks_need_no_inputs() -> None:
    model = randomise(ConformerEncoder(5, 4, 6, 2, 2, 3).double())
    average = copy.deepcopy(model)
    before = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters())
    report = deepen(model.layers, [0, 2], optimizers=optimizer, followers=[average.layers])
    assert len(model.layers) == len(average.layers) == 4
    inputs = (torch.randn(2, 6, 5), torch.tensor([6, 4]))
    assert_function_preserved(before, model, inputs)
    assert_function_preserved(before, average, inputs)
    assert {id(p) for p in optimizer.param_groups[0]["params"]} == {id(p) for p in model.parameters()}
    assert report.renames["blocks.1.final_norm.weight"] == "blocks.2.final_norm.weight"


def test_blocks_of_the_user() -> None:
    blocks = randomise(nn.Sequential(Block(4), Block(4)).double())
    before = copy.deepcopy(blocks)
    deepen(blocks, 1, example_inputs=torch.randn(3, 4, dtype=torch.float64))
    assert len(blocks) == 3
    assert torch.equal(blocks[1].up.weight, blocks[0].up.weight)
    assert not blocks[1].down.weight.any()
    assert_function_preserved(before, blocks, torch.randn(5, 4))


def test_refusals() -> None:
    with pytest.raises(DepthError, match="blocks of type Block, without example inputs"):
        deepen(nn.Sequential(Block(4)), 0)
    with pytest.raises(DepthError, match=r"from 0 to 1"):
        deepen(nn.Sequential(Block(4)), 2, example_inputs=torch.randn(2, 4))
    with pytest.raises(DepthError, match="does not add to its input"):
        deepen(nn.Sequential(nn.Linear(4, 4)), 0, example_inputs=torch.randn(2, 4))
    with pytest.raises(DepthError, match="a Linear of 0 blocks"):
        deepen(nn.Linear(4, 4), 0)  # type: ignore[arg-type]
    with pytest.raises(DepthError, match="a ModuleList of 0 blocks"):
        deepen(nn.ModuleList(), 0)
