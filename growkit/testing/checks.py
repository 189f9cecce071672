"""Assertions about growths."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from growkit.discovery.inputs import CallModel, Inputs
from growkit.growth.reference import EXACT
from growkit.growth.verify import verify


def assert_function_preserved(
    before: nn.Module, after: nn.Module, example_inputs: Any, *, call: CallModel | None = None, tolerance: float = EXACT
) -> None:
    """Asserts law 2 in float64: relative deviation of the outputs at most `tolerance` (1e-12).

    Both models are copied in double precision, with the weights they have; neither is changed.

    Raises:
        AssertionError: with the deviation and the module where it begins.
    """
    given = _double(example_inputs)
    result = verify(copy.deepcopy(before).double(), copy.deepcopy(after).double(), given, call=call)
    assert result.max_rel <= tolerance, str(result)


def _double(value: Any) -> Any:
    if isinstance(value, Inputs):
        return Inputs(*_double(value.args), **_double(value.kwargs))
    return tree_map_only(Tensor, lambda t: t.double() if t.is_floating_point() else t, value)


def assert_unchanged(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Asserts that a model holds exactly the tensors of an earlier copy of its state.

    Raises:
        AssertionError: naming the first tensor that differs.
    """
    now = model.state_dict()
    assert now.keys() == state.keys(), f"tensors differ: {sorted(now.keys() ^ state.keys())}"
    for name, tensor in state.items():
        assert now[name].dtype == tensor.dtype, f"{name} changed its dtype"
        assert torch.equal(now[name], tensor), f"{name} changed"
