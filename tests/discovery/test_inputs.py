"""Tests of example inputs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from growkit.discovery.inputs import Inputs, as_inputs, leaves_in, run_model, tensors_in
from growkit.errors import InputsError

X, Y = torch.zeros(2, 3), torch.zeros(4, dtype=torch.long)


def test_every_form_becomes_positional_and_keyword_inputs() -> None:
    forms = [(X, (X,), {}), ((X, 2), (X, 2), {}), ({"x": X}, (), {"x": X}), (Inputs(X, y=Y), (X,), {"y": Y})]
    for given, args, kwargs in forms:
        found = as_inputs(given)
        assert (len(found.args), list(found.kwargs)) == (len(args), list(kwargs))
        assert all(a is b for a, b in zip(found.args, args, strict=True))
        assert all(found.kwargs[name] is kwargs[name] for name in kwargs)


def test_other_types_are_refused() -> None:
    with pytest.raises(InputsError) as caught:
        as_inputs([X])
    assert caught.value.given == "example inputs of type list"
    assert "a mapping of keyword inputs" in caught.value.allowed


def test_a_call_gets_model_and_inputs_as_they_are() -> None:
    assert run_model(nn.Linear(3, 2), [X], lambda model, inputs: inputs[0]) is X


def test_inputs_are_shown_when_the_model_raises() -> None:
    with pytest.raises(InputsError) as caught:
        run_model(nn.Linear(4, 2), Inputs(X, scale=0.5), None)
    assert caught.value.given.startswith(
        "Linear raises TypeError on the example inputs (float32[2, 3], scale=0.5): Linear.forward() got an unexpected"
    )
    assert isinstance(caught.value.__cause__, TypeError)


def test_tensors_are_found_in_nested_structures_once() -> None:
    class Result:
        def __init__(self) -> None:
            self.logits, self.more = X, [Y, X]

    assert [id(t) for t in tensors_in({"a": (X, Result()), "b": "text"})] == [id(X), id(Y)]


def test_leaves_are_found_as_often_as_they_occur() -> None:
    class Slotted:
        __slots__ = ("inner", "unset")

        def __init__(self, inner: object) -> None:
            self.inner = inner

    endless: list[object] = [X, Slotted([Y, X]), torch]  # a module leads to everything that is imported
    endless.append(endless)
    assert [id(t) for t in leaves_in(endless)] == [id(X), id(Y), id(X)]
