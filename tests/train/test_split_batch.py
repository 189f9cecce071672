"""Splits of a batch along time."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from growkit.errors import EngineError, SettingsError
from growkit.train import split_batch
from growkit.train.split_batch import shapes_apart_from_time

Pair = namedtuple("Pair", "x y")


@dataclass(frozen=True)
class Sample:
    tokens: Any
    name: str


class Opaque:
    def __init__(self, held: object):
        self.held = held


def counted(*shape: int) -> torch.Tensor:
    return torch.arange(int(np.prod(shape)), dtype=torch.float64).reshape(shape)


@settings(deadline=None, max_examples=60)
@given(length=st.integers(1, 9), steps=st.integers(1, 11), dim=st.integers(0, 2), rows=st.integers(1, 3))
def test_splits_put_together_are_the_batch(length: int, steps: int, dim: int, rows: int) -> None:
    shape = [rows, 2, 3]
    shape[dim] = length
    batch = {"a": [counted(*shape)], "b": Pair(counted(length, rows).numpy(), "text"), "c": Sample(counted(rows), "me")}
    splits = split_batch(batch, steps, time_dims={"a": dim, "b.x": -2, "c": None})
    assert torch.equal(torch.cat([split.batch["a"][0] for split in splits], dim), batch["a"][0])  # type: ignore[index]
    assert np.array_equal(np.concatenate([split.batch["b"].x for split in splits]), batch["b"].x)  # type: ignore[union-attr]
    assert [split.start for split in splits] == list(range(0, length, steps))
    assert [split.length for split in splits] == [min(steps, length - split.start) for split in splits]
    assert [split.last for split in splits] == [False] * (len(splits) - 1) + [True]
    assert sum(split.weight for split in splits) == pytest.approx(1.0, abs=1e-15)
    per_step = counted(length).square()
    means = sum(s.weight * per_step[s.start : s.start + s.length].mean() for s in splits)
    assert float(means) == pytest.approx(float(per_step.mean()), rel=1e-14)
    for split in splits:
        assert split.batch["c"] is batch["c"]
        assert isinstance(split.batch["b"], Pair)
        assert split.batch["b"].y == "text"


def test_splits_are_views() -> None:
    batch = (torch.zeros(2, 5), np.zeros((2, 5)))
    for split in split_batch(batch, 2, time_dims=1):
        split.batch[0].fill_(split.start + 1.0)
        split.batch[1].fill(split.start + 1.0)
    for whole in batch:
        assert whole.tolist() == [[1, 1, 3, 3, 5]] * 2


@pytest.mark.report("R170")
@pytest.mark.parametrize("steps", [None, 0, 5, 6])
def test_no_steps_and_more_steps_than_there_are_give_the_batch_itself(steps: int | None) -> None:
    batch = {"x": torch.zeros(2, 5)}
    (split,) = split_batch(batch, steps, time_dims=1)
    assert split.batch is batch
    assert (split.weight, split.start, split.length, split.last) == (1.0, 0, 5, True)


@pytest.mark.parametrize("steps", [-1, True, False, 2.0, "3"])
def test_other_steps_are_refused(steps: Any) -> None:
    with pytest.raises(SettingsError, match="time steps"):
        split_batch(torch.zeros(2, 5), steps, time_dims=1)


@pytest.mark.parametrize("time_dims", [None, True, "x", {"x": True}, {"x": 1.0}, {1: 1}])
def test_other_time_dims_are_refused(time_dims: Any) -> None:
    with pytest.raises(SettingsError, match="write time_dims=1, or"):
        split_batch({"x": torch.zeros(2, 5)}, 2, time_dims=time_dims)


def test_scalars_texts_and_none_have_no_time_axis_under_any_dim() -> None:
    batch = (torch.zeros(2, 5), torch.tensor(1.0), "text", None, 3, [], {"n": 2})
    splits = split_batch(batch, 4, time_dims=1)
    assert [split.batch[0].shape[1] for split in splits] == [4, 1]
    assert all(split.batch[index] is batch[index] for split in splits for index in range(1, 7))


MIXED = {
    "label": torch.zeros(4, dtype=torch.long),
    "x": torch.zeros(4, 6, 3),
    "time_first": torch.zeros(6, 4),
    "names": ["a", "b", "c", "d"],
    "scale": 2.0,
}


@pytest.mark.report("R169")
def test_time_axes_are_declared_entry_by_entry() -> None:
    splits = split_batch(MIXED, 4, time_dims={"x": 1, "time_first": 0, "label": None})
    assert [tuple(split.batch["x"].shape) for split in splits] == [(4, 4, 3), (4, 2, 3)]
    assert [tuple(split.batch["time_first"].shape) for split in splits] == [(4, 4), (2, 4)]
    for name in ("label", "names", "scale"):
        assert all(split.batch[name] is MIXED[name] for split in splits)


@pytest.mark.report("R169")
def test_what_is_not_declared_is_an_error_that_shows_all_entries() -> None:
    with pytest.raises(EngineError) as caught:
        split_batch(MIXED, 4, time_dims=1)
    assert str(caught.value) == (
        "the time axis 1 for label: Tensor (4,); the entries of the batch:\n"
        "    label: Tensor (4,)\n"
        "    x: Tensor (4, 6, 3)\n"
        "    time_first: Tensor (6, 4)\n"
        "    names.0: str\n"
        "    names.1: str\n"
        "    names.2: str\n"
        "    names.3: str\n"
        "    scale: float\n"
        "  allowed: each entry that has a time axis declared with its dim, each other one with None, "
        "and one length of time\n"
        "  next step: write time_dims={'label': None, 'x': 1, 'time_first': 1}, with None for each entry that has no "
        "time axis, and its dim for each that has one"
    )


@pytest.mark.parametrize(
    ("batch", "time_dims", "given", "next_step"),
    [
        (
            (torch.zeros(3, 5), torch.zeros(3, 1)),
            1,
            "different lengths of time: 0 has 5, 1 has 1;",
            "write time_dims={",
        ),
        (
            {"x": torch.zeros(3, 5), "label": torch.zeros(3)},
            {"x": 1},
            "no time axis declared for label: Tensor (3,);",
            "add 'label': None to time_dims",
        ),
        (
            {"x": torch.zeros(3, 5)},
            {"x": None},
            "time_dims={'x': None} for a batch without",
            "declare the time axis of",
        ),
        ({"x": torch.zeros(3, 5)}, {"x": 1, "xx": 1}, "time_dims={'xx': 1}, which decides no entry;", "write 'x'"),
        ({"x": torch.zeros(3, 5)}, {"x": 1, "label": None}, "time_dims={'label': None}, which", "name entries"),
        ({"x": torch.zeros(3, 5)}, {"*": 1, "x": 1}, "time_dims={'x': 1}, which", "put it before"),
        ({"x": torch.zeros(3, 5), "s": "a"}, {"x": 1, "s": 1}, "time_dims={'s': 1}, which", "name entries"),
        (["text"], 1, "time_dims={'*': 1}, which decides no entry;", "give a batch that holds tensors"),
        ((torch.zeros(3, 5), Opaque(torch.zeros(2))), 1, "1: Opaque, with tensors inside it;", "make it a dataclass"),
        ((torch.zeros(3, 5), {torch.zeros(2)}), 1, "1: set, with tensors inside it;", "make it a dataclass"),
    ],
)
def test_contradictions_are_refused(batch: Any, time_dims: Any, given: str, next_step: str) -> None:
    with pytest.raises(EngineError) as caught:
        split_batch(batch, 2, time_dims=time_dims)
    assert caught.value.given.startswith(given)
    assert caught.value.next_step.startswith(next_step)


def test_a_path_may_name_a_container_or_be_a_glob_and_the_first_one_counts() -> None:
    batch = {"inputs": {"tokens": torch.zeros(2, 3), "mask": torch.zeros(2)}, "meta": Opaque(torch.zeros(9))}
    splits = split_batch(batch, 2, time_dims={"inputs.mask": None, "inputs": 1, "*": None, "absent*": None})
    assert [split.batch["inputs"]["tokens"].shape[1] for split in splits] == [2, 1]
    assert all(split.batch["meta"] is batch["meta"] for split in splits)


def test_long_lists_of_entries_are_cut() -> None:
    with pytest.raises(EngineError) as caught:
        split_batch([torch.zeros(2), *["a"] * 99], 2, time_dims=1)
    assert caught.value.given.splitlines()[-1] == "    and 60 more"


# ------------------------------------------------------------------------------------------------ packed sequences


@settings(deadline=None, max_examples=60)
@given(lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5), steps=st.integers(1, 8), is_sorted=st.booleans())
@example(lengths=[5, 7, 6, 1], steps=2, is_sorted=False)  # an order that is not its own inverse
def test_splits_of_a_packed_sequence_hold_the_rows_that_go_on(lengths: list[int], steps: int, is_sorted: bool) -> None:
    if is_sorted:
        lengths = sorted(lengths, reverse=True)
    padded = 1 + counted(len(lengths), max(lengths), 2)
    packed = pack_padded_sequence(padded, torch.tensor(lengths), batch_first=True, enforce_sorted=is_sorted)
    splits = split_batch({"x": packed}, steps, time_dims=0)
    for split in splits:
        piece = split.batch["x"]
        assert isinstance(piece, PackedSequence)
        unpacked, sizes = pad_packed_sequence(piece, batch_first=True)
        rows = [row for row, length in enumerate(lengths) if length > split.start]
        expected = [padded[row, split.start : min(lengths[row], split.start + split.length)] for row in rows]
        assert sizes.tolist() == [len(row) for row in expected]
        if not is_sorted:
            assert piece.sorted_indices is not None
            assert piece.unsorted_indices is not None
            assert piece.sorted_indices[piece.unsorted_indices].tolist() == list(range(len(rows)))
        assert all(torch.equal(unpacked[i, : len(row)], row) for i, row in enumerate(expected))
        assert split.weight == pytest.approx(sum(map(len, expected)) / sum(lengths), abs=1e-15)
    assert sum(split.weight for split in splits) == pytest.approx(1.0, abs=1e-15)


def test_a_recurrent_state_goes_on_over_packed_splits() -> None:
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(2, 3, batch_first=True).double()
    packed = pack_padded_sequence(torch.randn(3, 7, 2).double(), torch.tensor([7, 4, 2]), batch_first=True)
    whole, _ = lstm(packed)
    state, outputs = None, []
    for split in split_batch(packed, 3, time_dims=0):
        if state is not None:
            state = tuple(held[:, : split.batch.batch_sizes[0]] for held in state)
        out, state = lstm(split.batch, state)
        outputs.append(out.data)
    assert torch.allclose(torch.cat(outputs), whole.data, rtol=0, atol=1e-15)


def test_packed_rows_of_different_lengths_are_refused() -> None:
    one, other = (
        pack_padded_sequence(torch.zeros(2, 4, 1), torch.tensor(lengths), batch_first=True)
        for lengths in ([4, 3], [4, 2])
    )
    with pytest.raises(EngineError, match="rows have different lengths"):
        split_batch((one, other), 2, time_dims=0)


def test_shapes_apart_from_time() -> None:
    packed = torch.nn.utils.rnn.pack_sequence([torch.zeros(3, 5), torch.zeros(2, 5)])
    batch = {"x": torch.zeros(2, 7, 3), "labels": torch.zeros(2), "packed": packed, "name": "a"}
    dims = {"x": 1, "labels": None, "packed": 0}
    assert shapes_apart_from_time(batch, dims) == {"x": [2, 3], "packed": [2, 5]}
