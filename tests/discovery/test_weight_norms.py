"""The factor that the lengths beside a weight norm take."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import growkit as gk
from growkit.axes.axis import Correction
from growkit.discovery.discover import discover
from growkit.errors import SizeError
from tests.discovery.models import Small, X, weight

LENGTHS = "w.parametrizations.weight.original0"


def _model(dim: int) -> Small:
    layer = parametrizations.weight_norm(nn.Linear(4, 6), dim=dim)
    return Small(lambda m, x: m.b(torch.tanh(m.w(torch.tanh(m.a(x))))), a=nn.Linear(5, 4), w=layer, b=nn.Linear(6, 2))


def _length_of(table: gk.AxisTable, axis: str) -> Correction:
    (found,) = table[axis]
    (correction,) = found.corrections
    return correction


def test_lengths_take_the_root_of_what_the_squares_sum_to() -> None:
    read = _length_of(discover(_model(0), X), "a.weight[0]")
    assert (str(read.target), read.size, read.energy) == (f"{LENGTHS}[0]", 0, -0.5)
    written = _length_of(discover(_model(1), X), "w.bias[0]")
    assert (str(written.target), written.size, written.energy) == (f"{LENGTHS}[1]", 0, 0.5)


@pytest.mark.parametrize(("dim", "axis", "power"), [(0, "a.weight[0]", -0.5), (1, "w.bias[0]", 0.5)])
@pytest.mark.parametrize("copies", [2, 3])
def test_copies_scale_them(dim: int, axis: str, power: float, copies: int) -> None:
    """k rows that are copies have k times the square; k columns of 1 / k, a k-th of it."""
    model = _model(dim).double()
    before, old = model(X.double()), model.w.parametrizations.weight.original0
    gk.grow(model, widen={axis: float(copies)}, method="copy", example_inputs=X.double())
    torch.testing.assert_close(model.w.parametrizations.weight.original0, old * copies**power, rtol=1e-15, atol=0)
    torch.testing.assert_close(model(X.double()), before, rtol=0, atol=1e-12)


def test_both_sides_at_once() -> None:
    model = _model(0).double()
    before, old = model(X.double()), model.w.parametrizations.weight.original0
    gk.grow(model, widen={"a.weight[0]": 8, "w.bias[0]": 12}, method="copy", example_inputs=X.double())
    expected = torch.cat([old, old]) * 2**-0.5
    torch.testing.assert_close(model.w.parametrizations.weight.original0, expected, rtol=1e-15, atol=0)
    torch.testing.assert_close(model(X.double()), before, rtol=0, atol=1e-12)


def _shared(m: Small, x: Tensor) -> Tensor:
    """One vector of lengths for two directions, of which one reads an axis that does not grow along."""
    first, second = (torch._weight_norm(v, m.g, 0) for v in (m.v, m.u))
    return m.b(torch.tanh(F.linear(torch.tanh(m.a(x)), first) + F.linear(torch.tanh(m.c(x)), second)))


def _added(m: Small, x: Tensor) -> Tensor:
    return m.b(torch.tanh(F.linear(torch.tanh(m.a(x)), torch._weight_norm(m.v, m.g, 0)) + m.g[:, 0]))


@pytest.mark.parametrize("run", [_shared, _added])
def test_lengths_that_are_used_for_something_else_too_take_nothing(run: object) -> None:
    second = {"c": nn.Linear(5, 3), "u": weight(6, 3)} if run is _shared else {}
    model = Small(run, a=nn.Linear(5, 4), v=weight(6, 4), g=weight(6, 1), b=nn.Linear(6, 2), **second)
    table = discover(model, X)
    assert _length_of(table, "a.weight[0]").target is None
    with pytest.raises(SizeError, match="a factor that no parameter can take over"):
        gk.make_plan(table, {"a.weight[0]": 8}, method="copy")
    gk.grow(model, widen={"a.weight[0]": 8}, method="fresh", example_inputs=X)
