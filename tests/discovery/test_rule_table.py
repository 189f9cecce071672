"""Tests of the table of op rules."""

from __future__ import annotations

import pytest
import torch

from growkit.discovery import rules
from growkit.discovery.call import Call, Known
from growkit.discovery.discover import discover
from growkit.discovery.rule_table import _RULES, register, rule_of
from growkit.errors import SettingsError
from tests.discovery.models import Small, X, passages

aten = torch.ops.aten


def test_ops_are_looked_up_by_the_op_itself() -> None:
    assert rule_of(aten.add) is rules.elementwise.sums
    assert rule_of(aten.special_bessel_j0) is None


def test_ops_in_place_have_the_rule_of_the_plain_one_or_their_own() -> None:
    assert rule_of(aten.add_) is rules.elementwise.sums
    assert rule_of(aten.copy_) is rules.placing.copy


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
            call.note(dim, "pointwise:bessel_j1")
        return known

    model = Small(lambda m, x: torch.special.bessel_j1(m.a(x)), a=torch.nn.Linear(5, 4))
    assert passages(discover(model, X), "a.weight[0]") == {"pointwise:bessel_j1", "output"}
    assert aten.special_bessel_j1 not in _RULES
