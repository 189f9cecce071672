"""Tensors as stored arrays, and back."""

from typing import Any

import pytest
import torch
from torch import nn

from growkit.checkpoint.storage import check_tensor, dtype_name, dtype_named, pack, unpack
from growkit.errors import CheckpointError

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def round_trip(*tensors: torch.Tensor) -> list[torch.Tensor]:
    specs, stored = pack([(f"t{index}", tensor) for index, tensor in enumerate(tensors)])
    return unpack(specs, {name: tensor.clone() for name, tensor in stored.items()})


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def random_bits(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.randint(2, shape).bool()
    itemsize = torch.empty(0, dtype=dtype).itemsize
    return torch.randint(256, (*shape[:-1], shape[-1] * itemsize), dtype=torch.uint8).view(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_name)
def test_every_dtype_comes_back_bit_for_bit_also_as_views_of_one_memory(dtype: torch.dtype) -> None:
    whole = random_bits(dtype, 4, 6)
    alone, empty, scalar = random_bits(dtype, 3, 2), random_bits(dtype, 2, 3)[:0], random_bits(dtype, 1)[0]
    views = [whole, whole[1:3], whole.t(), whole[:, 1::2]]
    result = round_trip(alone, empty, scalar, *views)
    for before, after in zip([alone, empty, scalar, *views], result, strict=True):
        assert after.dtype == dtype
        assert after.shape == before.shape
        assert bits(after) == bits(before)
    assert len({tensor.untyped_storage().data_ptr() for tensor in result[3:]}) == 1
    assert [tensor.stride() for tensor in result[3:]] == [tensor.stride() for tensor in views]


@pytest.mark.report("R105")
def test_a_tie_is_stored_once_and_comes_back_as_a_tie() -> None:
    weight = torch.randn(3, 2)
    specs, stored = pack([("embedding", weight), ("head", weight.detach())])
    assert {name: tensor.shape for name, tensor in stored.items()} == {"embedding": (3, 2)}
    embedding, head = unpack(specs, stored)
    embedding[0, 0] = 7
    assert head[0, 0] == 7


def test_views_of_different_dtypes_share_their_memory_again() -> None:
    numbers = torch.arange(6.0)
    view = numbers[1:3].view(torch.int32)
    after, after_view = round_trip(numbers, view)
    after[1] = -0.0
    assert after_view[0] == torch.tensor(-0.0).view(torch.int32)
    assert after_view.tolist()[1] == view.tolist()[1]


def test_views_whose_memory_begins_where_no_entry_of_another_dtype_does_find_their_entries() -> None:
    numbers = torch.arange(6.0)
    views = [numbers[1:], numbers[2:4].view(torch.float64)]  # from bytes 4 and 8 on
    after = round_trip(*views)
    assert [bits(tensor) for tensor in after] == [bits(tensor) for tensor in views]


def test_of_a_large_memory_only_the_part_that_is_seen_is_stored() -> None:
    buffer = torch.zeros(1000)
    _, stored = pack([("a", buffer[500:510]), ("b", buffer[505:520])])
    assert stored["a"].numel() <= 20 + 4  # cut at multiples of 16 bytes
    _, stored = pack([("a", buffer[500:510])])
    assert stored["a"].shape == (10,)


@pytest.mark.report("R108")
def test_what_is_not_contiguous_keeps_its_strides_or_becomes_contiguous() -> None:
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    transposed, part, repeated = torch.randn(3, 2).t(), torch.randn(4, 4)[:, 1:3], torch.randn(3).expand(2, 3)
    given = [image, transposed, part, repeated]
    result = round_trip(*given)
    for before, after in zip(given, result, strict=True):
        assert torch.equal(before, after)
    assert [tensor.stride() for tensor in result] == [image.stride(), transposed.stride(), (2, 1), (3, 1)]


def test_names_are_told_apart() -> None:
    _, stored = pack(
        [("a", torch.zeros(1)), ("a", torch.ones(1)), ("__metadata__", torch.ones(2)), ("\ud800", torch.ones(3))]
    )
    assert list(stored) == ["a", "a#2", "__metadata__#2", "?"]


class Named(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("tensor", "given", "next_step"),
    [
        (lambda: torch.zeros(2).as_subclass(Named), "Named", "save a plain tensor"),
        (lambda: nn.UninitializedParameter(), "UninitializedParameter", "save a plain tensor"),
        (lambda: torch.zeros(2, device="meta"), "device meta", "materialise"),
        (lambda: torch.eye(2).to_sparse(), "layout sparse_coo", "to_dense()"),
        (lambda: torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.quint8), "quantised", "int_repr()"),
        (lambda: torch.zeros(2, dtype=torch.complex64).conj(), "lazy conjugate", "resolve_conj()"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*quant.*")
def test_a_tensor_that_is_more_than_its_entries_is_refused(tensor: Any, given: str, next_step: str) -> None:
    with pytest.raises(CheckpointError, match=f"slots.0.x: a.*{given}") as caught:
        check_tensor(tensor(), "slots.0.x")
    assert next_step in caught.value.next_step


def test_plain_tensors_and_parameters_are_not_refused() -> None:
    check_tensor(torch.zeros(2), "x")
    check_tensor(nn.Parameter(torch.zeros(2)), "x")


GOOD = {"dtype": "float32", "shape": [2, 3], "stored": "a"}


@pytest.mark.parametrize(
    "spec",
    [
        {**GOOD, "shape": [2, 4], "stride": [4, 1], "offset": 0},
        {**GOOD, "stride": [3, 1], "offset": 1},
        {**GOOD, "stride": [3, -1], "offset": 2},
        {**GOOD, "stride": [3, 1], "offset": -1},
        {**GOOD, "stride": [3, True], "offset": 0},
        {**GOOD, "stride": [2, 1]},
        {**GOOD, "stride": [10**18, 1], "offset": 0},
        {"dtype": "float32", "shape": [10**12]},
        {"dtype": "no_dtype", "shape": [0]},
    ],
)
def test_a_spec_that_does_not_fit_is_refused(spec: dict[str, Any]) -> None:
    stored = {"a": torch.zeros(2, 3)}
    assert unpack([GOOD], stored)[0].shape == (2, 3)
    with pytest.raises(CheckpointError):
        unpack([spec], stored)


def test_dtypes_by_name() -> None:
    assert all(dtype_named(dtype_name(dtype)) == dtype for dtype in DTYPES)
    for name in ("load", "__name__", None, 3):
        with pytest.raises(CheckpointError, match="the dtype"):
            dtype_named(name)
