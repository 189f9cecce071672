"""Rules on slots small enough to do by hand."""

import pytest
import torch
from torch import Tensor

from growkit.errors import OptimizerError
from growkit.maps.lifting import DimMap
from growkit.optim.rules import Graded, Scalar, gradient_factors

NONE_NEW = (None,) * 3
# Rows: unit 0 twice with shares 1/4 and 3/4, unit 1 once. Columns: unit 0, a new one, unit 1.
ROWS = DimMap(2, (0, 0, 1), (1.0, 1.0, 1.0), (0.25, 0.75, 1.0), NONE_NEW)
COLUMNS = DimMap(2, (0, -1, 1), (1.0, 0.0, 1.0), (1.0, 0.0, 1.0), NONE_NEW)
NEW_ROWS = DimMap(2, (0, 1, -1, -1), (1.0, 1.0, 0.0, 0.0), (1.0, 1.0, 0.0, 0.0), (None,) * 4)
SLOT = torch.tensor([[16.0, 32.0], [4.0, 8.0]])


@pytest.mark.parametrize(
    ("degree", "dims", "new_state", "expected"),
    [
        (1, [ROWS, None], "mean", [[4, 8], [12, 24], [4, 8]]),
        (2, [ROWS, None], "mean", [[1, 2], [9, 18], [4, 8]]),
        (0, [ROWS, None], "mean", [[16, 32], [16, 32], [4, 8]]),
        (1, [ROWS, COLUMNS], "mean", [[4, 0, 8], [12, 0, 24], [4, 0, 8]]),
        (2, [ROWS, COLUMNS], "mean", [[1, 1.5, 2], [9, 13.5, 18], [4, 6, 8]]),
        (2, [ROWS, COLUMNS], "zero", [[1, 0, 2], [9, 0, 18], [4, 0, 8]]),
        (2, [NEW_ROWS, COLUMNS], "mean", [[16, 24, 32], [4, 6, 8], [10, 15, 20], [10, 15, 20]]),
        (1, [None, None], "mean", [[16, 32], [4, 8]]),
    ],
)
def test_graded(degree: int, dims: list[DimMap | None], new_state: str, expected: list[list[float]]) -> None:
    old = SLOT.clone()
    grown = Graded(degree).remap(old, dims, new_state)
    assert torch.equal(grown, torch.tensor(expected, dtype=torch.float32))
    assert torch.equal(old, SLOT)
    assert grown.data_ptr() != old.data_ptr()


def test_graded_of_a_sign_flip_squares_it_away() -> None:
    flip = DimMap(1, (0, 0), (1.0, -1.0), (0.5, -0.5), (None, None))
    assert torch.equal(Graded(1).remap(torch.tensor([6.0]), [flip], "mean"), torch.tensor([3.0, -3.0]))
    assert torch.equal(Graded(2).remap(torch.tensor([8.0]), [flip], "mean"), torch.tensor([2.0, 2.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_graded_keeps_dtype_and_memory_format(dtype: torch.dtype) -> None:
    slot = torch.ones(2, 2, 3, 3, dtype=dtype).to(memory_format=torch.channels_last)
    grown = Graded(2).remap(slot, [ROWS, COLUMNS, None, None], "mean")
    assert grown.dtype is dtype
    assert grown.shape == (3, 3, 3, 3)
    assert grown.is_contiguous(memory_format=torch.channels_last)
    assert not grown.is_contiguous()


def test_graded_refuses_a_dim_without_gradient() -> None:
    running = DimMap(2, (0, 1, 1), (1.0, 1.0, 1.0), None, NONE_NEW)
    for refused in (lambda: Graded(1).remap(SLOT, [running, None], "mean"), lambda: gradient_factors(running)):
        with pytest.raises(OptimizerError, match="has no gradient there") as caught:
            refused()
        assert "produces, consumes, gain or bias" in caught.value.allowed
        assert "declare the layout" in caught.value.next_step


def test_scalar_clones_a_tensor() -> None:
    step = torch.tensor(7.0)
    grown = Scalar().remap(step, [ROWS], "mean")
    assert isinstance(grown, Tensor)
    step += 1
    assert grown == 7.0
    assert Scalar().remap(7, [ROWS], "mean") == 7


def test_expected_shapes() -> None:
    assert Graded(1).expected_shape(torch.Size((3, 4))) == (3, 4)
    assert Scalar().expected_shape((3, 4)) == ()
