"""Tests of the rules of parameters that are divided by a norm of theirs."""

from __future__ import annotations

import pytest
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from growkit.discovery.discover import discover
from tests.discovery.models import Small, X, passages, reasons, weight


def _model(layer: nn.Module) -> Small:
    return Small(lambda m, x: m.b(m.w(m.a(x))), a=nn.Linear(5, 4), w=layer, b=nn.Linear(6, 2))


def test_of_weight_norm_the_lengths_have_the_role_of_their_units() -> None:
    table = discover(_model(parametrizations.weight_norm(nn.Linear(4, 6))), X)
    weights = "w.parametrizations.weight.original"
    assert str(table.layouts[f"{weights}0"]) == "w.bias[0]:produces 1"
    assert str(table.layouts[f"{weights}1"]) == "w.bias[0]:gain a.weight[0]:consumes"
    assert passages(table, "a.weight[0]") == {"scaled_weight_norm 0 1 0"}
    assert passages(table, "w.bias[0]") == set()


def test_weight_norm_of_columns() -> None:
    table = discover(_model(parametrizations.weight_norm(nn.Linear(4, 6), dim=1)), X)
    assert str(table.layouts["w.parametrizations.weight.original0"]) == "1 a.weight[0]:consumes"
    assert passages(table, "w.bias[0]") == {"scaled_weight_norm 1 0 0"}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_weight_norm_as_a_hook() -> None:
    table = discover(_model(nn.utils.weight_norm(nn.Linear(4, 6))), X)
    assert str(table.layouts["w.weight_g"]) == "w.bias[0]:produces 1"
    assert str(table.layouts["w.weight_v"]) == "w.bias[0]:gain a.weight[0]:consumes"
    assert {n.path for n in table.numbers} >= {"w.in_features", "w.out_features"}


def test_a_norm_by_hand() -> None:
    model = Small(lambda m, x: m.b(F.linear(m.a(x), F.normalize(m.v))), a=nn.Linear(5, 4), v=weight(6, 4),
                  b=nn.Linear(6, 2))  # fmt: skip
    table = discover(model, X)
    assert str(table.layouts["v"]) == "v[0]:produces a.weight[0]:consumes"
    assert "two_roles" in passages(table, "v[0]")
    assert passages(table, "a.weight[0]") == {"weight_norm 0 1 0"}


def test_other_norms_and_statistics_lock_what_they_run_over() -> None:
    uses = {
        "linalg_vector_norm": lambda v: v / v.norm(p=1, dim=1, keepdim=True),
        "mean": lambda v: v - v.mean(1, keepdim=True),
        "native_batch_norm": lambda v: F.batch_norm(v[None], None, None, training=True)[0],
        "native_group_norm": lambda v: F.group_norm(v[None, :, :, None], 6)[0, :, :, 0],
    }
    for op, use in uses.items():
        model = Small(lambda m, x, use=use: m.b(F.linear(m.a(x), use(m.v))), a=nn.Linear(5, 4), v=weight(6, 4),
                      b=nn.Linear(6, 2))  # fmt: skip
        assert op in reasons(discover(model, X), "a.weight[0]")[0]


def test_what_depends_on_all_entries_of_a_parameter_is_locked() -> None:
    for wrap, reason in (
        (parametrizations.spectral_norm, "its largest singular value"),
        (parametrizations.orthogonal, "is made orthogonal"),
    ):
        table = discover(_model(wrap(nn.Linear(4, 6))).eval(), X)
        for d in (0, 1):
            assert reason in reasons(table, f"w.parametrizations.weight.original[{d}]")[0]
        assert str(table.layouts["w.parametrizations.weight.original"]).endswith("a.weight[0]:consumes")


def test_numbers_of_a_layer_follow_its_computed_weight() -> None:
    table = discover(_model(parametrizations.weight_norm(nn.Linear(4, 6))), X)
    kept = {n.path: n.value for n in table.numbers}
    assert (kept["w.in_features"], kept["w.out_features"]) == (4, 6)
