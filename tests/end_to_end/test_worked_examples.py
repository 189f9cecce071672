"""Five reports that would go wrong in silence, with numbers that can be checked by hand."""

import pytest
import torch
from torch import Tensor, nn

from growkit import Insert, grow


def _linear(*rows: tuple[float, ...]) -> nn.Linear:
    """A layer without bias, of these rows."""
    layer = nn.Linear(len(rows[0]), len(rows), bias=False)
    layer.weight.data = torch.tensor(rows, dtype=torch.float32)
    return layer


class Branches(nn.Module):
    """Both branches side by side, read by one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.leave = _linear((1, 1), (2, 0)), _linear((0, 3)), _linear((10, 20, 30))

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(torch.cat([self.a(x), self.b(x)], dim=-1))


@pytest.mark.report("R012")
def test_new_columns_stand_behind_those_of_their_branch() -> None:
    """x = (1, 1): 10 * 2 + 20 * 2 + 30 * 3 = 150. Then a third unit in branch a, a copy of its first:

    5 * 2 + 20 * 2 + 5 * 2 + 30 * 3 = 150. With the new column at the end, 5 * 2 + 20 * 2 + 30 * 2 + 5 * 3 = 125.
    """
    model, x = Branches(), torch.tensor([[1.0, 1.0]])
    assert model(x).item() == 150
    grow(model, widen={"a.weight[0]": 3}, method="copy", example_inputs=x)
    assert model.a.weight.tolist() == [[1, 1], [2, 0], [1, 1]]
    assert model.b.weight.tolist() == [[0, 3]]
    assert model.leave.weight.tolist() == [[5, 20, 5, 30]]
    assert model(x).item() == 150


@pytest.mark.report("R016")
def test_a_channel_is_a_block_of_columns_after_a_flatten() -> None:
    """Channels 1 * x and 10 * x at the two places of x = (1, 2), flattened to (1, 2, 10, 20).

    1 * 1 + 2 * 2 + 3 * 10 + 4 * 20 = 115. Then a copy of the first channel: its two columns are halved, both times.
    """
    convolution = nn.Conv1d(1, 2, 1, bias=False)
    convolution.weight.data = torch.tensor([[[1.0]], [[10.0]]])
    model, x = nn.Sequential(convolution, nn.Flatten(), _linear((1, 2, 3, 4))), torch.tensor([[[1.0, 2.0]]])
    assert model(x).item() == 115
    grow(model, widen={"0.weight[0]": 3}, method="copy", example_inputs=x)
    assert model[0].weight.flatten().tolist() == [1, 10, 1]
    assert model[2].weight.tolist() == [[0.5, 1, 3, 4, 0.5, 1]]
    assert model(x).item() == 115


class Heads(nn.Module):
    """Each head takes the largest of its entries off all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.head_dim = 2, 2
        self.enter, self.leave = _linear((1, 0), (2, 0), (0, 3), (0, 4)), _linear((2, 4, 6, 8))

    def forward(self, x: Tensor) -> Tensor:
        heads = self.enter(x).view(len(x), self.num_heads, self.head_dim)
        return self.leave((heads - heads.amax(-1, keepdim=True)).flatten(1))


@pytest.mark.report("R019")
def test_a_head_is_a_block_of_rows_and_its_number_follows() -> None:
    """x = (1, 1): heads (1, 2) and (3, 4) become (-1, 0) and (-1, 0), so 2 * -1 + 6 * -1 = -8.

    Then a copy of the first head: rows 0 and 1 again, not rows 0 and 2; 1 * -1 + 6 * -1 + 1 * -1 = -8.
    """
    model, x = Heads(), torch.tensor([[1.0, 1.0]])
    assert model(x).item() == -8
    grow(model, widen={"num_heads": 3}, method="copy", example_inputs=x)
    assert (model.num_heads, model.head_dim) == (3, 2)
    assert model.enter.weight.tolist() == [[1, 0], [2, 0], [0, 3], [0, 4], [1, 0], [2, 0]]
    assert model.leave.weight.tolist() == [[1, 2, 6, 8, 1, 2]]
    assert model(x).item() == -8


class Block(nn.Module):
    """x + down(x)"""

    def __init__(self) -> None:
        super().__init__()
        self.down = _linear((2, 0), (0, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(x)


@pytest.mark.report("R026")
def test_a_new_block_adds_nothing() -> None:
    """A block takes (x, y) to (3 x, 2 y). Two of them make (9, 4) of (1, 1), and so do three if one adds zero."""
    model, x = nn.Sequential(Block(), Block()), torch.tensor([[1.0, 1.0]])
    assert model(x).tolist() == [[9, 4]]
    grow(model, deepen={"": Insert(at=[1])}, example_inputs=x)
    assert [block.down.weight.tolist() for block in model] == [[[2, 0], [0, 1]], [[0, 0], [0, 0]], [[2, 0], [0, 1]]]
    assert model(x).tolist() == [[9, 4]]
    plainly_repeated = nn.Sequential(model[0], model[0], model[2])
    assert plainly_repeated(x).tolist() == [[27, 8]]


@pytest.mark.report("R062")
def test_moments_are_divided_once_and_twice() -> None:
    """y = 2 * 3x + 4 * 5x, loss y, x = 1: the gradients are (2, 4) at the entry and (3, 5) at the exit.

    With both betas at 1/2 one step makes moments of half of them, and of half of their squares. Once each unit has a
    copy, both read out with half of its weight, so the gradients at the entry are (1, 2, 1, 2): half, and the squares
    a quarter. Those at the exit are (3, 5, 3, 5), as before.
    """
    model, x = nn.Sequential(_linear((3,), (5,)), _linear((2, 4))), torch.tensor([[1.0]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.5, 0.5))
    model(x).sum().backward()
    optimizer.step()
    grow(model, widen={"0.weight[0]": 4}, method="copy", optimizers=optimizer, example_inputs=x)
    assert model[0].weight.flatten().tolist() == [3, 5, 3, 5]
    assert model[1].weight.tolist() == [[1, 2, 1, 2]]
    first, second = (optimizer.state[layer.weight] for layer in model)
    assert first["exp_avg"].flatten().tolist() == [0.5, 1, 0.5, 1]
    assert first["exp_avg_sq"].flatten().tolist() == [0.5, 2, 0.5, 2]
    assert second["exp_avg"].flatten().tolist() == [1.5, 2.5, 1.5, 2.5]
    assert second["exp_avg_sq"].flatten().tolist() == [4.5, 12.5, 4.5, 12.5]
