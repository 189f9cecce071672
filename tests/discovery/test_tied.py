"""A tied tensor keeps one role where what it reads is scaled for this reading alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.discovery.discover import discover
from tests.discovery.models import Small, reasons, weight

IDS = torch.tensor([[1, 2, 3], [4, 0, 1]])

Run = Callable[[Small, Tensor], Tensor]


def _roles(run: Run, **parts: object) -> dict[str, str]:
    table = discover(Small(run, e=nn.Embedding(5, 4), **parts), IDS)
    return {name: str(layout) for name, layout in table.layouts.items()}


def _head(m: Small, x: Tensor) -> Tensor:
    return F.linear(x, m.e.weight)


def test_gain_and_bias_of_a_norm_are_divided() -> None:
    roles = _roles(lambda m, ids: _head(m, m.n(m.e(ids))), n=nn.LayerNorm(4))
    assert roles["e.weight"] == "e.weight[0]:produces e.weight[1]:produces"
    assert (roles["n.weight"], roles["n.bias"]) == ("e.weight[1]:readout", "e.weight[1]:consumes")


def test_the_gain_of_an_rms_norm() -> None:
    assert _roles(lambda m, ids: _head(m, m.n(m.e(ids))), n=nn.RMSNorm(4))["n.weight"] == "e.weight[1]:readout"


def test_a_norm_written_out() -> None:
    def run(m: Small, ids: Tensor) -> Tensor:
        x = m.e(ids)
        return _head(m, m.gain * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)) + m.bias)

    roles = _roles(run, gain=weight(4), bias=weight(4))
    assert roles["e.weight"] == "e.weight[0]:produces e.weight[1]:produces"
    assert (roles["gain"], roles["bias"]) == ("e.weight[1]:readout", "e.weight[1]:consumes")


def test_a_linear_layer_before_the_head() -> None:
    roles = _roles(lambda m, ids: _head(m, m.down(m.up(m.e(ids)))), up=nn.Linear(4, 3), down=nn.Linear(3, 4))
    assert roles["e.weight"] == "e.weight[0]:produces e.weight[1]:produces"
    assert roles["down.weight"] == "e.weight[1]:consumes up.weight[0]:consumes"
    assert roles["down.bias"] == "e.weight[1]:consumes"
    assert roles["up.weight"] == "up.weight[0]:produces e.weight[1]:consumes"


def _used_twice(m: Small, ids: Tensor) -> Tensor:
    x = m.n(m.e(ids))
    return _head(m, x) + m.other(x)


def _returned(m: Small, ids: Tensor) -> tuple[Tensor, Tensor]:
    x = m.n(m.e(ids))
    return _head(m, x), x


def _norm_used_twice(m: Small, ids: Tensor) -> Tensor:
    return _head(m, m.n(m.n(m.e(ids))))


def _nonlinear(m: Small, ids: Tensor) -> Tensor:
    return _head(m, torch.tanh(m.n(m.e(ids))))


def _one_reading_unscaled(m: Small, ids: Tensor) -> Tensor:
    x = m.e(ids)
    return _head(m, m.n(x)) + _head(m, x)


def _number_added(m: Small, ids: Tensor) -> Tensor:
    return _head(m, m.n(m.e(ids)) + 1.0)


def _summed(m: Small, ids: Tensor) -> Tensor:
    return _head(m, m.n(m.e(ids)) + m.e(ids))


@pytest.mark.parametrize(
    "run", [_used_twice, _returned, _norm_used_twice, _nonlinear, _one_reading_unscaled, _number_added, _summed]
)
def test_anything_else_is_locked_and_says_what_would_help(run: Run) -> None:
    table = discover(Small(run, e=nn.Embedding(5, 4), n=nn.LayerNorm(4), other=nn.Linear(4, 5)), IDS)
    (lock,) = (lock for lock in table.by_name["e.weight[1]"].locks if "one tensor" in lock.reason)
    assert lock.next_step.startswith("let a norm with a gain, or a linear layer, come right before")


def test_a_norm_without_gain_does_not_help() -> None:
    def run(m: Small, ids: Tensor) -> Tensor:
        return _head(m, F.layer_norm(m.e(ids), (m.e.embedding_dim,), None, m.bias))

    table = discover(Small(run, e=nn.Embedding(5, 4), bias=weight(4)), IDS)
    assert any("one tensor" in reason for reason in reasons(table, "e.weight[1]"))
