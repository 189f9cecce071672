"""Nested states as JSON and tensors, and back."""

import enum
import json
import math
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from growkit.checkpoint.encoding import DEEPEST, TAG, decode, encode
from growkit.errors import CheckpointError


def round_trip(state: Any) -> Any:
    value, leaves = encode(state)
    return decode(json.loads(json.dumps(value, allow_nan=False)), [tensor for _, tensor in leaves])


def same(one: Any, other: Any) -> bool:
    """Equal in type, order and bits, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(
            type(a) is type(b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other) and (one != 0 or repr(one) == repr(other))


KEYS = st.text(max_size=3) | st.just(TAG) | st.integers(-(10**20), 10**20)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.sampled_from(["\ud800", TAG, ""])
    | st.binary(max_size=4)
    | st.sampled_from([torch.bfloat16, torch.device("cuda:1"), torch.Size([2, 3]), 2**4000, -0.0, 5e-324])
    | st.lists(st.floats(width=32), max_size=3).map(torch.tensor)
)
STATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict)
    ),
    max_leaves=12,
)


@given(STATES)
def test_every_nested_state_comes_back(state: Any) -> None:
    assert same(round_trip(state), state) or _nan_inside(state)


def _nan_inside(state: Any) -> bool:
    """Tensors with NaN are not equal to themselves: compared by their bits instead."""
    return repr(round_trip(state)) == repr(state) and "nan" in repr(state)


@pytest.mark.report("R110")
def test_the_state_dict_of_a_module_with_extra_state_comes_back_with_its_versions() -> None:
    class Counter(nn.BatchNorm1d):
        def get_extra_state(self) -> Any:
            return {"seen": 3, "names": ("a", "b")}

        def set_extra_state(self, state: Any) -> None:
            self.seen = state

    before = Counter(2).state_dict()
    after = round_trip(before)
    assert same(after, before)
    assert after._metadata == before._metadata
    assert after._metadata[""]["version"] == 2
    module = Counter(2)
    module.load_state_dict(after)
    assert module.seen == {"seen": 3, "names": ("a", "b")}


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.SGD])
def test_the_state_dict_of_an_optimizer_comes_back(optimizer: Any) -> None:
    layer = nn.Linear(2, 3)
    made = optimizer(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2)).sum().backward()
    made.step()
    assert same(round_trip(made.state_dict()), made.state_dict())


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "int8", "uint16", "int64", "bool", "complex128"])
def test_numpy_arrays_and_numbers_come_back(kind: str) -> None:
    array = np.array([[1, 0, 1]], dtype=kind)[:, ::-1]
    assert same(round_trip({"a": array, "b": array[0, 0]}), {"a": array, "b": array[0, 0]})


def test_tensors_stand_in_a_list_with_their_paths() -> None:
    value, leaves = encode({"model": {"w": torch.zeros(1)}, "slots": [{0: torch.ones(1)}]})
    assert [path for path, _ in leaves] == ["model.w", "slots[0].0"]
    assert value["model"] == {"w": {TAG: "tensor", "index": 0}}


class Colour(enum.IntEnum):
    RED = 1


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Colour.RED, r"a .*Colour"),
        (Point(1, 2), r"a .*Point"),
        ({1, 2}, r"a set"),
        (defaultdict(list), r"a collections.defaultdict"),
        (nn.Linear(1, 1), r"a torch.nn.modules.linear.Linear"),
        (len, r"a builtin_function_or_method"),
        (np.array(["text"]), r"a numpy.ndarray"),
        (np.array([None]), r"a numpy.ndarray"),
        (np.datetime64("2020-01-01"), r"a numpy.datetime64"),
        (2**5000, r"an int of 5001 bits"),
        (torch.zeros(2, device="meta"), r"a tensor without data"),
        ({(1, 2): 3}, r"the key \(1, 2\) \(tuple\)"),
        ({True: 3}, r"the key True \(bool\)"),
        ({2**5000: 3}, r"an int of 5001 bits"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_path(value: Any, what: str) -> None:
    with pytest.raises(CheckpointError, match=rf"^optimizers.main.state.0\[1\]: {what}"):
        encode({"optimizers": {"main": {"state": {0: [None, value]}}}})


def test_a_state_that_holds_itself_is_refused() -> None:
    state: dict[str, Any] = {}
    state["self"] = state
    with pytest.raises(CheckpointError, match="a container that holds itself"):
        encode(state)
    deep: Any = None
    for _ in range(DEEPEST - 1):
        deep = [deep]
    assert round_trip(deep) == deep
    with pytest.raises(CheckpointError, match=f"more than {DEEPEST} levels"):
        encode([deep])


def test_a_value_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(CheckpointError, match="a value of kind 'code'"):
        decode({TAG: "code", "value": "1"}, [])
