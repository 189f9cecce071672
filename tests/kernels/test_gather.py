"""The kernel against the dense oracle."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from growkit.kernels.dense import dense
from growkit.kernels.gather import gather

Maps = list[tuple[list[int], list[float]] | None]


@st.composite
def maps(draw: st.DrawFn, shape: tuple[int, ...]) -> Maps:
    found: Maps = []
    for size in shape:
        if draw(st.booleans()):
            found.append(None)
            continue
        source = draw(st.lists(st.integers(-1, size - 1), min_size=1, max_size=12))
        constant = draw(st.booleans())
        scales = (
            [0.5] * len(source)
            if constant
            else draw(st.lists(st.sampled_from([1.0, 0.5, 3.0, 1 / 3]), min_size=len(source), max_size=len(source)))
        )
        found.append((source, scales))
    return found


shapes = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@given(shapes.flatmap(lambda shape: st.tuples(st.just(shape), maps(shape))))
def test_equals_the_dense_oracle(case: tuple[tuple[int, ...], Maps]) -> None:
    shape, drawn = case
    old = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(gather(old, drawn), dense(old, drawn), rtol=1e-15, atol=0)


def test_many_runs_take_the_path_by_index() -> None:
    """Every second unit, with another factor each: 128 runs."""
    old = torch.randn(256, 3, dtype=torch.float64)
    source = [*range(0, 256, 2), -1]
    factor = [1 / (j + 1) for j in range(129)]
    expected = torch.cat(
        [old[::2] * torch.tensor(factor[:128], dtype=torch.float64)[:, None], torch.zeros(1, 3, dtype=torch.float64)]
    )
    torch.testing.assert_close(gather(old, [(source, factor), None]), expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_keeps_dtype_and_scales_in_it(dtype: torch.dtype) -> None:
    """A power of two is exact in every dtype."""
    old = torch.randn(4, 3).to(dtype)
    new = gather(old, [([0, 1, 2, 3, 0, 1, 2, 3], [0.5] * 8), None])
    assert new.dtype == dtype
    assert torch.equal(new, torch.cat([old, old]) / 2)


def test_keeps_the_memory_format() -> None:
    old = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)
    new = gather(old, [([0, 1, 2, 3, 0], [1.0] * 5), None, None, None])
    assert new.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(new[:4], old)


def test_shares_no_memory_and_needs_no_gradient() -> None:
    old = torch.nn.Parameter(torch.ones(2))
    new = gather(old, [None])
    new.zero_()
    assert old.tolist() == [1.0, 1.0]
    assert not new.requires_grad


def test_integers_and_scalars() -> None:
    assert gather(torch.tensor([3, 4]), [([1, 0, 1], [1.0] * 3)]).tolist() == [4, 3, 4]
    assert gather(torch.tensor(7), []).item() == 7


def test_meta_tensors_give_the_shape() -> None:
    new = gather(torch.empty(3, 2, device="meta"), [([0, 1, 2, -1], [1.0] * 4), None])
    assert new.device.type == "meta"
    assert new.shape == (4, 2)


@pytest.mark.parametrize("units", [3, 100])
def test_new_positions_are_zero_whatever_the_old_entries_are(units: int) -> None:
    """By slices, and by index, which reads position 0 for what has no source."""
    old = torch.full((units,), float("inf"))
    source = [i for unit in range(units) for i in (unit, -1)]
    new = gather(old, [(source, [0.5] * len(source))])
    assert torch.equal(new[::2], old)
    assert torch.equal(new[1::2], torch.zeros(units))
