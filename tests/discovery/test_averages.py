"""Whether units that carry the mean of the others come to every reader as zeros."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit.discovery.discover import discover
from growkit.growth.api import grow
from growkit.testing import assert_function_preserved, randomise
from tests.discovery.models import Small, X, passages


def net(run: Callable[[Any, Tensor], Any]) -> Small:
    """A stream of 3 units: `a` writes it, `n` and `m` are its norms, `b` reads it, `u` and `v` are a branch."""
    return randomise(
        Small(
            run, a=nn.Linear(5, 3), n=nn.LayerNorm(3, eps=1e-2), m=nn.LayerNorm(3, eps=1e-2), b=nn.Linear(3, 4),
            u=nn.Linear(3, 2), v=nn.Linear(2, 3), g=nn.Parameter(torch.ones(3)), h=nn.Parameter(torch.ones(3)),
            eps=1e-2,
        )
    )  # fmt: skip


def pre_norm(m: Any, x: Tensor) -> Tensor:
    x = m.a(x)
    return m.b(m.m(x + m.v(torch.tanh(m.u(m.n(x))))))


def gated_behind_the_norm(m: Any, x: Tensor) -> Tensor:
    x = m.a(x)
    return m.b(m.n(x) * x) + m.b(m.m(x * 2))


def norm_by_hand(m: Any, x: Tensor) -> Tensor:
    x = x - x.mean(-1, keepdim=True)
    return x / (x.pow(2).mean(-1, keepdim=True) + m.eps).sqrt() * m.g + m.h


def written_out(m: Any, x: Tensor) -> Tensor:
    return m.b(norm_by_hand(m, m.a(x)))


@pytest.mark.parametrize("run", [pre_norm, gated_behind_the_norm, written_out])
def test_means_may_be_added(run: Callable[[Any, Tensor], Tensor]) -> None:
    model = net(run)
    assert "centred" in passages(discover(model, X), "a.weight[0]")
    for new in (5, 7):
        before, grown = net(run), net(run)
        leave = list(discover(grown, X).unread)
        grow(grown, widen={"a.weight[0]": new}, example_inputs=X, method="mean_pad", leave=leave)
        assert_function_preserved(before, grown, X)


def raw(m: Any, x: Tensor) -> Tensor:
    x = m.a(x)
    return m.b(m.n(x)) + m.b(x)


def post_norm(m: Any, x: Tensor) -> Tensor:
    x = m.n(m.a(x))
    return m.b(m.m(x + m.v(torch.tanh(m.u(x)))))


def bias_before_the_norm_as_well(m: Any, x: Tensor) -> Tensor:
    """New units of it would have to be the mean of the others here, and zero there."""
    return m.b(norm_by_hand(m, m.a(x) + m.h))


def scaled_unit_by_unit(m: Any, x: Tensor) -> Tensor:
    return m.b(m.n(m.a(x) * m.g))


def a_function_of_units(m: Any, x: Tensor) -> Tensor:
    return m.b(m.n(torch.tanh(m.a(x))))


def given_out(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    x = m.a(x)
    return m.b(m.n(x)), x.amax(-1)


@pytest.mark.parametrize(
    "run", [raw, post_norm, bias_before_the_norm_as_well, scaled_unit_by_unit, a_function_of_units, given_out]
)
def test_means_that_something_would_read(run: Callable[[Any, Tensor], Tensor]) -> None:
    kinds = passages(discover(net(run), X), "a.weight[0]")
    assert "uncentred" in kinds
    assert "centred" not in kinds
