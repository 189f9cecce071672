"""Tests of the rules of ops that pick or put together."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.axes.expressions import Leaf, Role
from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight


def test_a_unit_that_is_picked_for_the_shape_of_the_rest_is_not_read() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(x) + torch.zeros(x[..., -1].shape)[..., None]

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    assert reasons(discover(model, X), "a.weight[0]") == []


def test_slices_and_split_cut_an_axis_of_a_parameter() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        first, second, third = m.a(x).split([m.n, m.n, m.k], dim=-1)
        return m.b(first * second), m.c(third)

    table = discover(Small(run, a=nn.Linear(5, 7), b=nn.Linear(2, 4), c=nn.Linear(3, 4), n=2, k=3), X)
    assert str(table.layouts["a.bias"]) == "[a.weight[0].0|a.weight[0].0|a.weight[0].2]:produces"
    assert table.layouts["b.weight"].dims[1] == Leaf("a.weight[0].0", Role.CONSUMES)
    assert table.layouts["c.weight"].dims[1] == Leaf("a.weight[0].2", Role.CONSUMES)


def test_glu_makes_one_axis_of_two_halves() -> None:
    table = discover(Small(lambda m, x: m.b(F.glu(m.a(x))), a=nn.Linear(5, 8), b=nn.Linear(4, 2)), X)
    assert str(table.layouts["a.weight"]).startswith("[a.weight[0].0|a.weight[0].0]:produces")
    assert passages(table, "a.weight[0].0") == {"gate", "pointwise:sigmoid"}


def test_cat_makes_a_concatenation_with_offsets() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.c(torch.cat([m.a(x), x, m.b(x)], -1))

    table = discover(Small(run, a=nn.Linear(5, 3), b=nn.Linear(5, 2), c=nn.Linear(10, 4)), X)
    assert str(table.layouts["c.weight"]) == "c.weight[0]:produces [a.weight[0]|a.weight[1]|b.weight[0]]:consumes"


def test_a_class_token_produces() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return torch.cat([m.token.expand(x.shape[0], -1, -1), m.a(x)], 1)

    table = discover(Small(run, a=nn.Linear(5, 4), token=weight(1, 1, 4)), X)
    assert str(table.layouts["token"]) == "1 1 a.weight[0]:produces"


def test_a_list_of_one_number_takes_a_unit_as_a_slice_does() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x).view(2, 7, m.heads + 2, -1)
        return (x[..., :-2, :] * x[..., [-2], :] + x[..., torch.tensor([-1]), :]) @ m.b

    table = discover(Small(run, a=nn.Linear(5, 15), b=weight(3, 4), heads=3), X)
    assert str(table.layouts["a.bias"]) == ("([a.weight[0].0|a.weight[0].1|a.weight[0].2] a.weight[0].3):produces")
    assert [axis.kind for axis in table if axis.size == 1] == ["fixed", "fixed"]
    assert reasons(table, "a.weight[0].0") == []
    assert [str(number.sizes) for number in table.numbers if number.path == "heads"] == [
        "(Leaf(axis='a.weight[0].0', role=None),)"
    ]


def test_the_place_of_a_unit_counts_those_before_it() -> None:
    at_three = discover(Small(lambda m, x: m.a(x)[..., [3]], a=nn.Linear(5, 6)), X)
    assert "its size 3 is written in the code" in " ".join(reasons(at_three, "a.weight[0].0"))
    kept = discover(Small(lambda m, x: m.a(x)[..., [m.n]], a=nn.Linear(5, 6), n=3), X)
    assert reasons(kept, "a.weight[0].0") == []


def test_a_unit_that_inputs_pick_is_not_a_slice() -> None:
    model = Small(lambda m, x: m.a(x)[..., x[0, 0, :1].long() % 2], a=nn.Linear(5, 6))
    assert reasons(discover(model, X), "a.weight[0]") == ["its units are picked by their number"]


def test_an_axis_of_which_each_unit_is_picked_is_a_structural_number() -> None:
    for pick in (lambda x: x.unbind(2), lambda x: [x[:, :, i] for i in range(3)]):
        table = discover(Small(lambda m, x, pick=pick: sum(pick(m.a(x).unflatten(-1, (3, 4)))), a=nn.Linear(5, 12)), X)
        assert table.by_name["a.weight[0].0"].kind == "fixed"
        assert reasons(table, "a.weight[0].0")[0] == "its units are picked by their number"
    some = discover(Small(lambda m, x: m.a(x).unflatten(-1, (3, 4))[:, :, 1], a=nn.Linear(5, 12)), X)
    assert some.by_name["a.weight[0].0"].kind != "fixed"


def test_units_that_are_picked_by_number_lock() -> None:
    index = torch.tensor([0, 2])
    for pick in (
        lambda x: x[..., 0],
        lambda x: x[..., ::3],
        lambda x: x[..., index],
        lambda x: x.index_select(-1, index),
        lambda x: x.gather(-1, index.expand(2, 7, 2)),
        lambda x: torch.stack(x.unbind(-1)),
    ):
        table = discover(Small(lambda m, x, pick=pick: pick(m.a(x)), a=nn.Linear(5, 4)), X)
        assert reasons(table, "a.weight[0]") == ["its units are picked by their number"]


def test_picking_frames_leaves_the_features_alone() -> None:
    index = torch.tensor([0, 2])
    for pick in (
        lambda x: x[:, 0],
        lambda x: x[:, ::2],
        lambda x: x[:, index],
        lambda x: x[index[:1]],
        lambda x: x.index_select(1, index),
        lambda x: x.gather(1, index[None, :, None].expand(x.shape[0], -1, x.shape[-1])),
        lambda x: torch.stack([x[:, 0], x[:, 1]], 1),
        lambda x: F.pad(x, (0, 0, 1, 2)),
    ):
        table = discover(Small(lambda m, x, pick=pick: m.b(pick(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
        assert reasons(table, "a.weight[0]") == []
        assert table.layouts["b.weight"].dims[1] == Leaf("a.weight[0]", Role.CONSUMES)


def test_padding_an_axis_of_a_parameter_locks_it() -> None:
    table = discover(Small(lambda m, x: F.pad(m.a(x), (0, 1)), a=nn.Linear(5, 4)), X)
    assert reasons(table, "a.weight[0]") == ["it is padded"]


def test_relative_shift_by_gather_strides_or_padding_leaves_heads_alone() -> None:
    """Scores by offset to scores by frame, in three ways: all give the same numbers and lock nothing."""

    def by_gather(score: Tensor) -> Tensor:
        time = score.shape[-2]
        offsets = time - 1 - torch.arange(time)[:, None] + torch.arange(time)
        return score.gather(-1, offsets.expand(*score.shape[:-1], time))

    def by_stride(score: Tensor) -> Tensor:
        score = score.contiguous()
        batch, heads, time, width = score.shape
        strides = (score.stride(0), score.stride(1), width - 1, 1)
        return score.as_strided((batch, heads, time, time), strides, time - 1)

    def by_padding(score: Tensor) -> Tensor:
        time = score.shape[-2]
        return F.pad(score, (1, 0)).flatten(-2)[..., time:].unflatten(-1, (time, -1))[..., :time]

    def run(m: Small, x: Tensor) -> Tensor:
        q = m.q(x).unflatten(-1, (m.heads, -1)).transpose(1, 2)
        position = m.p(m.table).unflatten(-1, (m.heads, -1)).permute(1, 2, 0)
        return m.shift(q @ position)

    results = []
    for shift in (by_gather, by_stride, by_padding):
        torch.manual_seed(0)
        model = Small(run, q=nn.Linear(5, 6), p=nn.Linear(3, 6), table=torch.rand(13, 3), heads=2, shift=shift)
        table = discover(model, X)
        assert str(table.layouts["p.weight"]) == "(q.weight[0].0 q.weight[0].1):produces table[1]:consumes"
        assert passages(table, "q.weight[0].0") == {"per_head", "output"}
        assert passages(table, "q.weight[0].1") == {"contracted_queries"}
        results.append(model(X))
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], results[2])


@pytest.mark.parametrize("pairs", [2, 3])
def test_every_second_unit_is_one_of_a_pair(pairs: int) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        even, odd = m.a(x)[..., ::2], m.a(x)[..., 1::2]
        return m.b(even * odd.sigmoid()) + m.c(torch.stack([-odd, even], -1).flatten(-2))

    model = Small(run, a=nn.Linear(5, 2 * pairs), b=nn.Linear(pairs, 4), c=nn.Linear(2 * pairs, 4))
    table = discover(model, X)
    assert str(table.layouts["a.bias"]) == "(a.weight[0].0 a.weight[0].1):produces"
    assert str(table.layouts["b.weight"]) == "b.weight[0]:produces a.weight[0].0:consumes"
    assert str(table.layouts["c.weight"]) == "b.weight[0]:produces (a.weight[0].0 c.weight[1].1):consumes"
    assert table.by_name["a.weight[0].1"].kind == "fixed"
    assert reasons(table, "a.weight[0].1") == ["its units are picked by their number"]
    assert deviation_after_copies(model, X, {"a.weight[0].0": [*range(pairs), 0]}) < 1e-12


def test_padding_with_a_number_stops_scales() -> None:
    for value, kinds in ((0.0, set()), (2.0, {"pointwise:masked_fill"})):
        model = Small(
            lambda m, x, v=value: m.b(F.pad(m.a(x), (0, 0, 1, 2), value=v)), a=nn.Linear(5, 4), b=nn.Linear(4, 2)
        )
        assert passages(discover(model, X), "a.weight[0]") == kinds
