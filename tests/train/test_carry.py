"""States carried from split to split, and the gradients of truncated backpropagation worked out on paper."""

from collections import deque, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from growkit.errors import EngineError
from growkit.train.carry import detached
from growkit.train.containers import children
from growkit.train.split_batch import split_batch

State = namedtuple("State", "h c")


@dataclass(frozen=True)
class Memory:
    keys: Any
    length: int


class Cache:
    def __init__(self, held: torch.Tensor):
        self.held = held


class DetachingCache(Cache):
    def detach(self) -> "DetachingCache":
        return DetachingCache(self.held.detach())


class ForgetfulCache(Cache):
    def detach(self) -> None:
        self.held = self.held.detach()


def leaf() -> torch.Tensor:
    return torch.ones(2, requires_grad=True) * 3


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, PackedSequence):
        return [value.data]
    if isinstance(value, Cache):
        return [value.held]
    inner = children(value)
    return [value] if inner is None else [tensor for _, item in inner for tensor in tensors(item)]


@pytest.mark.parametrize(
    "make",
    [
        leaf,
        lambda: (leaf(), leaf()),
        lambda: State(leaf(), [leaf()]),
        lambda: {"a": {"b": (leaf(),)}},
        lambda: Memory(leaf(), torch.tensor(3)),
        lambda: pack_sequence([leaf(), leaf()]),
        lambda: [DetachingCache(leaf())],
    ],
)
def test_every_tensor_is_cut_off_and_keeps_its_value_and_its_place(make: Any) -> None:
    carry = make()
    made = detached(carry)
    assert type(made) is type(carry)
    pairs = list(zip(tensors(carry), tensors(made), strict=True))
    assert pairs
    for before, after in pairs:
        assert after.grad_fn is None
        assert not after.requires_grad
        assert torch.equal(before, after)
        assert before.data_ptr() == after.data_ptr()


@pytest.mark.parametrize("carry", [None, 3, "text", (), {"n": [1, None]}, deque([1, 2])])
def test_what_holds_no_tensor_is_the_same_object(carry: object) -> None:
    assert detached(carry) is carry


@pytest.mark.parametrize(
    ("carry", "given"),
    [
        ({"state": [Cache(torch.zeros(1))]}, "carry.state.0 is a Cache with tensors inside it"),
        (deque([torch.zeros(1)]), "carry is a deque with tensors inside it"),
        ((ForgetfulCache(leaf()),), "detach() of carry.0 (ForgetfulCache) returned None"),
    ],
)
def test_what_cannot_be_cut_off_is_refused(carry: object, given: str) -> None:
    with pytest.raises(EngineError) as caught:
        detached(carry)
    assert caught.value.given == given


@pytest.mark.report("R172")
@pytest.mark.parametrize("steps", [1, 2, 3, 5, None])
def test_gradients_of_a_truncated_recurrence_are_those_on_paper(steps: int | None) -> None:
    """s_t = w s_{t-1} + x_t, loss = mean of s_t, splits that begin with a constant state.

    Inside a split ds_t/dw = s_{t-1} + w ds_{t-1}/dw, and ds/dw = 0 where a split begins.
    """
    w, x = 0.7, [1.0, -2.0, 0.5, 3.0, 1.5]
    state, derivative, expected = 0.25, 0.0, 0.0
    for t, value in enumerate(x):
        if t % (steps or len(x)) == 0:
            derivative = 0.0
        derivative = state + w * derivative
        state = w * state + value
        expected += derivative / len(x)

    weight = torch.tensor(w, dtype=torch.float64, requires_grad=True)
    carry: Any = {"s": torch.tensor(0.25, dtype=torch.float64)}
    for split in split_batch(torch.tensor(x, dtype=torch.float64), steps, time_dims=0):
        s, seen = carry["s"], []
        for value in split.batch:
            s = weight * s + value
            seen.append(s)
        (split.weight * torch.stack(seen).mean()).backward()
        carry = detached({"s": s})
    assert weight.grad is not None
    assert float(weight.grad) == pytest.approx(expected, rel=1e-14)
