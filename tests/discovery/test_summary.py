"""Tests of kinds and names."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from growkit.discovery.discover import discover
from tests.discovery.models import Attention, Small, X, reasons, weight


def test_kinds_of_an_attention_block() -> None:
    table = discover(Attention("einops", 8, 2, 3).double(), X)
    assert {axis.name: axis.kind for axis in table} == {
        "enter.weight[0]": "stream",
        "enter.weight[1]": "input",
        "query.weight[0].0": "heads",
        "query.weight[0].1": "head_dim",
        "value.weight[0].1": "head_dim",
        "leave.weight[0]": "output",
    }


def test_a_stream_that_is_the_result_is_a_stream_if_something_consumes_it() -> None:
    model = Small(lambda m, x: m.a(x) + m.b(m.a(x)), a=nn.Linear(5, 4), b=nn.Linear(4, 4))
    assert discover(model, X).by_name["a.weight[0]"].kind == "stream"


def test_channels_are_made_by_convolutions_or_pass_batch_norm() -> None:
    model = Small(lambda m, x: m.b(m.a(x.transpose(1, 2)).transpose(1, 2)), a=nn.Conv1d(5, 4, 1), b=nn.Linear(4, 2))
    assert discover(model, X).by_name["a.weight[0]"].kind == "channels"


def test_an_axis_is_named_after_the_matrix_that_makes_it_not_after_a_bias_before_it() -> None:
    table = discover(Small(lambda m, x: m.a(x) + m.bias, bias=weight(4), a=nn.Linear(5, 4, bias=False)), X)
    assert next(iter(table)).name == "a.weight[0]"
    assert [str(o) for o in table["a.weight[0]"][0].occurrences] == ["bias[0]", "a.weight[0]"]


def test_without_a_matrix_the_first_occurrence_names_it() -> None:
    table = discover(Small(lambda m, x: x * m.scale, scale=weight(5)), X)
    assert [(axis.name, axis.kind) for axis in table] == [("scale[0]", "input")]


def test_factors_are_numbered_by_their_place() -> None:
    table = discover(Attention("view", 8, 2, 3).double(), X)
    (axis,) = table["value.weight[0].1"]
    assert {(o.tensor, o.dim, o.position, o.factor) for o in axis.occurrences} == {
        ("value.weight", 0, 1, 1),
        ("value.bias", 0, 1, 1),
        ("out.weight", 1, 1, 1),
    }


def test_a_parameter_with_two_roles_is_locked() -> None:
    table = discover(Small(lambda m, x: m.a(x) * m.p + m.p, a=nn.Linear(5, 4), p=weight(4)), X)
    assert "one tensor gain and produces it" in reasons(table, "p[0]")


def test_a_parameter_whose_role_is_unclear_is_locked() -> None:
    table = discover(Small(lambda m, x: x[..., :1] / m.p, p=weight(4)), X)
    assert "its role in this parameter is not known" in reasons(table, "p[0]")


@pytest.mark.parametrize("frames", [7, 3])
def test_a_table_of_positions_is_sliced_by_time(frames: int) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(m.a(x) + m.table[: x.shape[1]])

    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2), table=torch.rand(9, 4)), X[:, :frames])
    assert str(table.layouts["table"]) == "[table[0].0:produces|table[0].1] a.weight[0]:produces"
    assert table.by_name["table[0].0"].kind == "input"
    assert reasons(table, "table[0].1") == ["no parameter produces it"]
    assert reasons(table, "a.weight[0]") == []


def test_a_table_of_places_is_as_large_as_the_data() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = torch.cat([m.token.expand(x.shape[0], -1, -1), m.a(x)], 1) + m.table
        return m.b(x)[:, 0]

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2), token=weight(1, 1, 4), table=weight(1, 8, 4))
    table = discover(model, X)
    assert table.by_name["table[1]"].kind == "fixed"
    assert reasons(table, "table[1]")[0].startswith("a table has an entry for each place of the data")
    assert reasons(table, "a.weight[0]") == []
