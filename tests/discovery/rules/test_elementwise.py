"""Tests of the rules of ops on single entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.axes.expressions import Leaf, Role
from growkit.axes.table import AxisTable
from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight

LATE = torch.arange(7)[:, None] > 3


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (F.relu, "pointwise:relu"),
        (F.gelu, "pointwise:gelu"),
        (F.silu, "pointwise:silu"),
        (torch.sigmoid, "pointwise:sigmoid"),
        (torch.tanh, "pointwise:tanh"),
        (lambda x: F.relu(x, inplace=True), "pointwise:relu"),
        (lambda x: x * x, "pointwise:square"),
        (lambda x: x**3, "pointwise:power"),
        (lambda x: x / (1 + x.abs()), "pointwise:div"),
        (lambda x: x.masked_fill(x > 0, 2.0), "pointwise:masked_fill"),
        (lambda x: torch.where(x > 0, x, 0.0), "pointwise:where"),
        (lambda x: x * torch.sigmoid(x), "gate"),
        (lambda x: x + x.neg(), "terms"),
        (lambda x: torch.lerp(x, x.sin(), 0.3), "pointwise:lerp"),
        (lambda x: torch.special.erfcx(x), "pointwise:special_erfcx"),
    ],
)
def test_what_an_activation_passes(function: object, kind: str) -> None:
    model = Small(lambda m, x: m.b(function(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    table = discover(model, X)
    assert kind in passages(table, "a.weight[0]")
    assert table.layouts["b.weight"].dims[1] == Leaf("a.weight[0]", Role.CONSUMES)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 2 * x,
        lambda x: -x,
        lambda x: x / 3,
        lambda x: x.masked_fill(torch.arange(7)[:, None] > 3, 0.0),
        torch.clone,
    ],
)
def test_linear_ops_leave_nothing(function: object) -> None:
    model = Small(lambda m, x: m.b(function(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    table = discover(model, X)
    assert passages(table, "a.weight[0]") == set()


def test_what_a_buffer_passes() -> None:
    """Scaled frequencies are no scaled sines."""
    places = torch.arange(7.0, dtype=torch.float64)[:, None]
    model = Small(
        lambda m, x: m.a(x) + m.b(torch.sin(places * m.f)),
        a=nn.Linear(5, 2),
        b=nn.Linear(3, 2),
        f=torch.rand(3, dtype=torch.float64),
    )
    table = discover(model, X)
    assert passages(table, "f[0]") == {"pointwise:sin"}
    assert deviation_after_copies(model, X, {"f[0]": [0, 1, 2, 1]}) < 1e-12
    assert not any("isometric" in admitted for admitted in table.by_name["f[0]"].admits)


def test_a_parameter_that_is_added_produces_and_one_that_multiplies_is_a_gain() -> None:
    model = Small(lambda m, x: (m.a(x) + m.shift) * m.scale / m.divisor, a=nn.Linear(5, 4), shift=weight(4),
                  scale=weight(7, 4), divisor=weight(4))  # fmt: skip
    table = discover(model, X)
    assert table.layouts["shift"].dims == (Leaf("a.weight[0]", Role.PRODUCES),)
    assert table.layouts["scale"].dims[1] == Leaf("a.weight[0]", Role.GAIN)
    assert table.layouts["divisor"].dims == (Leaf("a.weight[0]", Role.GAIN),)


def test_buffers_have_roles_too() -> None:
    model = Small(
        lambda m, x: m.a(x) * m.scale + m.table, a=nn.Linear(5, 4), scale=torch.rand(4), table=torch.rand(7, 4)
    )
    table = discover(model, X)
    assert table.layouts["scale"].dims == (Leaf("a.weight[0]", Role.GAIN),)
    assert table.layouts["table"].dims[1] == Leaf("a.weight[0]", Role.PRODUCES)


def test_a_table_made_in_the_forward_pass_locks_the_axis_it_meets() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(x + torch.arange(x.shape[-1]))

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert "a table that the forward pass makes" in reasons(table, "a.weight[0]")[0]


def test_constants_that_are_equal_for_all_units_lock_nothing() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(x + torch.zeros_like(x) + torch.arange(x.shape[1]).unsqueeze(-1) + x.new_ones(x.shape[-1]))

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert reasons(table, "a.weight[0]") == []


def _combined(use: Callable[[Small], Tensor], **parts: Any) -> AxisTable:
    """A weight `'7 4'` that reads a layer of 4 and is read by one of 2, computed from parameters."""
    model = Small(
        lambda m, x: m.b(F.linear(m.a(x), use(m))), a=nn.Linear(5, 4), b=nn.Linear(7, 2), w=weight(7, 4), **parts
    )
    return discover(model, X)


def test_terms_have_the_role_of_their_sum() -> None:
    table = _combined(lambda m: m.w - 2 * m.v, v=weight(7, 4))
    assert str(table.layouts["v"]) == str(table.layouts["w"]) == "w[0]:produces a.weight[0]:consumes"


def test_of_a_product_one_factor_has_the_role_and_the_others_are_gains() -> None:
    table = _combined(lambda m: m.w * m.mask * m.s / m.t[:, None], mask=torch.ones(7, 4), s=weight(4), t=weight(7))
    assert str(table.layouts["w"]) == "w[0]:produces a.weight[0]:consumes"
    assert str(table.layouts["mask"]) == "w[0]:gain a.weight[0]:gain"
    assert str(table.layouts["s"]) == "a.weight[0]:gain"
    assert str(table.layouts["t"]) == "w[0]:gain"


def test_a_function_of_a_weight_passes_no_shares() -> None:
    table = _combined(lambda m: m.w.tanh())
    assert passages(table, "w[0]") == {"pointwise:tanh"}
    assert passages(table, "a.weight[0]") == {"consumed:tanh"}
    assert "passes sigmoid before it is contracted" in reasons(_combined(lambda m: m.w.sigmoid()), "w[1]")[0]
    assert "passes square before it is contracted" in reasons(_combined(lambda m: m.w * m.w), "w[1]")[0]
    assert "passes reciprocal before" in reasons(_combined(lambda m: 1 / m.w), "w[1]")[0]
    assert "one tensor consumes and gain it" in reasons(_combined(lambda m: m.w * m.w.abs()), "w[1]")[0]


def test_a_function_of_a_gain_is_a_gain() -> None:
    table = _combined(lambda m: m.w * m.g.exp()[:, None], g=weight(7))
    assert str(table.layouts["g"]) == "w[0]:gain"
    assert passages(table, "w[0]") == {"gain:exp"}


def test_what_is_added_to_all_entries_of_a_weight_locks_what_it_reads() -> None:
    for use in (lambda m: m.w + 1, lambda m: 2 - m.w, lambda m: m.w + m.v[:, None], lambda m: m.w + m.v[0]):
        table = _combined(use, v=weight(7))
        assert reasons(table, "a.weight[0]") == [
            "a parameter gets something added before activations are contracted with it"
        ]
        assert reasons(table, "w[0]") == []
    assert reasons(_combined(lambda m: m.w + 0), "a.weight[0]") == []


@pytest.mark.parametrize(
    "use", [lambda m: m.w.clone().tanh_(), lambda m: (2 * m.w).add_(1), lambda m: (2 * m.w).mul_(m.v)]
)
def test_a_computed_parameter_that_is_changed_in_place_is_locked(use: Callable[[Small], Tensor]) -> None:
    table = _combined(use, v=torch.rand(7, 4))
    for name in ("w[0]", "a.weight[0]"):
        assert "a tensor that is computed from parameters is changed in place" in reasons(table, name)


def test_a_parameter_that_reads_and_scales_in_other_ways_is_locked() -> None:
    table = _combined(lambda m: torch.maximum(m.w, m.v), v=weight(7, 4))
    assert "parameters are combined by maximum" in reasons(table, "w[0]")[0]
    table = _combined(lambda m: m.w * torch.arange(4.0))
    assert "a table that the forward pass makes" in reasons(table, "a.weight[0]")[0]


@pytest.mark.parametrize("size", [3, 4])
def test_a_parameter_produces_the_dims_that_it_brings_along(size: int) -> None:
    """Such as the frequencies of a feature of time, `'batch time 1', 'frequency'`."""

    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(torch.sin(m.a(x) * m.w + m.phase)) + m.c(torch.cos(x[..., :1] + m.phase))

    parts = {"a": nn.Linear(5, 1), "w": weight(size), "phase": weight(size), "c": nn.Linear(size, 4)}
    model = Small(run, b=nn.Linear(size, 4), **parts)
    table = discover(model, X)
    assert str(table.layouts["w"]) == str(table.layouts["phase"]) == "w[0]:produces"
    assert passages(table, "w[0]") == {"shifted", "pointwise:sin", "pointwise:cos"}
    assert deviation_after_copies(model, X, {"w[0]": [*range(size), 0]}) < 1e-12
    divided = Small(lambda m, x: m.b(x[..., :1] / m.w), w=weight(size), b=nn.Linear(size, 4))
    assert reasons(discover(divided, X), "w[0]") == ["its role in this parameter is not known"]


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: torch.lerp(x, x.sin(), m.w),
        lambda m, x: torch.lerp(m.w, m.v, x.sigmoid()),
        lambda m, x: torch.addcmul(m.v, x, m.w, value=0.7),
        lambda m, x: torch.addcdiv(x, m.w, x.exp()),
        lambda m, x: torch.maximum(x, m.w) + m.v,
        lambda m, x: torch.where(x > m.w, x, m.v),
    ],
)
def test_a_function_of_an_activation_and_of_parameters_of_its_units(function: Callable[..., Tensor]) -> None:
    model = Small(lambda m, x: m.b(function(m, m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2), w=weight(4), v=weight(4))
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 1, 3, 3]}) < 1e-12


def test_what_is_written_into_a_constant_is_an_activation() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x)
        out = torch.zeros_like(x)
        out[:, 1:] = x[:, :-1]
        return m.b(x * out)

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert passages(table, "a.weight[0]") == {"gate"}
    assert reasons(table, "a.weight[0]") == []


@pytest.mark.parametrize(
    ("use", "shifted"),
    [
        (lambda m, y: y + 1, True),
        (lambda m, y: 1 - y, True),
        (lambda m, y: y.tanh() - 0.3, True),
        (lambda m, y: y.add_(0.3), True),
        (lambda m, y: y + torch.full_like(y, 0.3), True),
        (lambda m, y: y + torch.ones(2, 1, 1), True),
        (lambda m, y: y + m.one(y), True),
        (lambda m, y: y + m.scalar, True),
        (lambda m, y: _filled(y, 0.3), True),
        (lambda m, y: y + 0, False),
        (lambda m, y: y + torch.zeros_like(y), False),
        (lambda m, y: y + m.bias, False),
        (lambda m, y: 2 * y + y, False),
        (lambda m, y: _filled(y, 0.0), False),
    ],
)
def test_what_is_added_to_all_units_alike_is_added_to_new_ones(use: Any, shifted: bool) -> None:
    """A unit padded with zeros would be 0 + c, which its reader sees; a copy is h + c as its unit."""
    parts = {"bias": nn.Parameter(torch.ones(4)), "scalar": nn.Parameter(torch.ones(1)), "one": nn.Linear(4, 1)}
    model = Small(lambda m, x: m.b(use(m, m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 3), **parts)
    table = discover(model, X)
    assert ("shifted" in passages(table, "a.weight[0]")) is shifted
    assert ("zero_pad" in " ".join(table.by_name["a.weight[0]"].admits)) is not shifted


def _filled(y: Tensor, value: float) -> Tensor:
    y[:, 0] = value
    return y
