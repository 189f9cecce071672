"""Elementwise functions pass copies; a scale only where the function is linear."""

import torch
from torch.nn.functional import silu

from growkit.constraints.activation import CONSTRAINTS, pointwise
from tests.constraints.maps import MAPS, UNSCALED, admitted


def test_what_is_admitted() -> None:
    assert admitted(pointwise("relu")) == admitted(pointwise("sigmoid")) == UNSCALED
    assert admitted(pointwise("silu")) == UNSCALED | {"padded"}
    assert admitted(CONSTRAINTS["gate"]) == admitted(CONSTRAINTS["shifted"]) == UNSCALED
    assert admitted(CONSTRAINTS["residual"]) == set(MAPS)


def test_why() -> None:
    """silu(2 h) is not 2 silu(h), and (2 a)(2 b) not 2 (a b), but 2 a + 2 b is 2 (a + b)."""
    a, b = torch.tensor([0.7, -1.3]), torch.tensor([0.2, 0.9])
    assert not torch.allclose(silu(2 * a), 2 * silu(a))
    assert not torch.allclose((2 * a) * (2 * b), 2 * (a * b))
    assert torch.allclose(2 * a + 2 * b, 2 * (a + b))


def test_new_units_need_a_function_that_is_finite_everywhere() -> None:
    """A reader of weight zero makes zero of any finite value, but NaN of the logarithm of a negative one."""
    for function in ("log", "sqrt", "rsqrt", "reciprocal", "pow", "div", "some_new_function"):
        assert admitted(pointwise(function)) == {"x2", "3", "unequal shares"}
    assert (torch.tensor(-1.0).log() * 0).isnan()


def test_functions_whose_arguments_decide_at_zero_admit_no_padding() -> None:
    """ReLU6 is traced as hardtanh, and elu, celu, leaky_relu may have slope zero: no gradient for ever."""
    for function in ("hardtanh", "elu", "celu", "leaky_relu"):
        assert admitted(pointwise(function)) == UNSCALED


def test_why_padding_depends_on_the_function() -> None:
    """Zero must stay zero, sigmoid(0) = 1/2, and must be left, relu'(0) = 0 in torch."""
    zero = torch.zeros(1, requires_grad=True)
    assert torch.sigmoid(zero).item() == 0.5
    for function, slope in ((torch.relu, 0.0), (silu, 0.5), (torch.tanh, 1.0)):
        value = function(zero)
        assert value.item() == 0.0
        assert torch.autograd.grad(value, zero)[0].item() == slope


def test_the_refusal_says_what_would_do() -> None:
    refusal = pointwise("silu")(MAPS["scaled"])
    assert refusal is not None
    assert refusal.admitted == "unscaled copies, new units"
