"""Elementwise functions pass copies; a scale only where the function is linear."""

import torch
from torch.nn.functional import silu

from growkit.constraints.activation import CONSTRAINTS, POINTWISE
from tests.constraints.maps import MAPS, UNSCALED, admitted


def test_what_is_admitted() -> None:
    assert admitted(POINTWISE) == UNSCALED
    assert admitted(CONSTRAINTS["gate"]) == UNSCALED
    assert admitted(CONSTRAINTS["residual"]) == set(MAPS)


def test_why() -> None:
    """silu(2 h) is not 2 silu(h), and (2 a)(2 b) not 2 (a b), but 2 a + 2 b is 2 (a + b)."""
    a, b = torch.tensor([0.7, -1.3]), torch.tensor([0.2, 0.9])
    assert not torch.allclose(silu(2 * a), 2 * silu(a))
    assert not torch.allclose((2 * a) * (2 * b), 2 * (a * b))
    assert torch.allclose(2 * a + 2 * b, 2 * (a + b))


def test_the_refusal_says_what_would_do() -> None:
    refusal = POINTWISE(MAPS["scaled"])
    assert refusal is not None
    assert refusal.admitted == "unscaled copies, new units"
