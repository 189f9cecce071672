"""Tests of the table of op rules."""

from __future__ import annotations

import pytest
import torch

from growkit.discovery import rules
from growkit.discovery.call import Call, Known
from growkit.discovery.discover import discover
from growkit.discovery.rule_table import _RULES, register, rule_of
from growkit.errors import SettingsError
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, weight

aten = torch.ops.aten


def test_ops_are_looked_up_by_the_op_itself() -> None:
    assert rule_of(aten.add.Tensor) is rules.elementwise.sums
    assert rule_of(aten.put.default) is None


def test_ops_in_place_have_the_rule_of_the_plain_one_or_their_own() -> None:
    assert rule_of(aten.add_.Tensor) is rules.elementwise.sums
    assert rule_of(aten.copy_.default) is rules.placing.copy


@pytest.mark.parametrize("op", [aten.special_bessel_j0.default, aten.lerp.Tensor, aten.addcmul_.default])
def test_what_torch_says_of_an_op_is_used_where_it_has_no_rule(op: torch._ops.OpOverload) -> None:
    assert rule_of(op) is rules.elementwise.nonlinear
    assert rule_of(aten.add.Tensor) is not rules.elementwise.nonlinear  # it has that tag too


def test_ops_of_a_user_are_followed_by_their_tag() -> None:
    with torch.library._scoped_library("growkit_tests", "DEF") as library:
        library.define("wave(Tensor x, Tensor w) -> Tensor", tags=torch.Tag.pointwise)
        library.impl("wave", lambda x, w: torch.sin(x * w), "CompositeExplicitAutograd")
        model = Small(
            lambda m, x: m.b(torch.ops.growkit_tests.wave(m.a(x), m.w)),
            a=torch.nn.Linear(5, 4),
            b=torch.nn.Linear(4, 2),
            w=weight(4),
        )
        table = discover(model, X)
        assert passages(table, "a.weight[0]") == {"pointwise:wave"}
        assert str(table.layouts["w"]) == "a.weight[0]:gain"
        assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 1, 3, 3]}) < 1e-12


def test_a_second_rule_and_a_wrong_key_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"a rule for aten\.add"):
        register(aten.add)(lambda call: None)
    with pytest.raises(SettingsError, match=r"a rule for aten\.add\.Tensor, a OpOverload"):
        register(aten.add.Tensor)(lambda call: None)


def test_a_new_rule_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("growkit.discovery.rule_table._RULES", dict(_RULES))

    @register(aten.special_bessel_j1)
    def bessel(call: Call) -> Known:
        known = call.known(call["self"])
        for dim in known.dims:
            call.note(dim, "pointwise:tanh")
        return known

    model = Small(lambda m, x: torch.special.bessel_j1(m.a(x)), a=torch.nn.Linear(5, 4))
    assert passages(discover(model, X), "a.weight[0]") == {"pointwise:tanh", "output"}
    assert aten.special_bessel_j1 not in _RULES
    rule_of.cache_clear()  # as `register` does
