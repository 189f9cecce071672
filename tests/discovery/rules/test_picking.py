"""Tests of the rules of ops that pick entries by an index or a mask."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.axes.expressions import Leaf, Role
from growkit.axes.patterns import show
from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight

IDS = torch.tensor([[1, 2, 0], [3, 3, 8]])
EXACT = 1e-12


def test_an_embedding_produces_and_its_entries_are_a_vocabulary() -> None:
    model = Small(lambda m, ids: m.b(m.e(ids)), e=nn.Embedding(9, 4), b=nn.Linear(4, 2))
    table = discover(model, torch.tensor([[1, 2]]))
    assert table.layouts["e.weight"].dims[1] == Leaf("e.weight[1]", Role.PRODUCES)
    assert passages(table, "e.weight[0]") == {"lookup"}
    assert [table.by_name[f"e.weight[{d}]"].kind for d in (0, 1)] == ["vocabulary", "hidden"]
    assert reasons(table, "e.weight[0]") == reasons(table, "e.weight[1]") == []


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_of_entries_produces(mode: str) -> None:
    model = Small(lambda m, ids: m.b(m.e(ids)), e=nn.EmbeddingBag(9, 4, mode=mode), b=nn.Linear(4, 2))
    table = discover(model, IDS)
    assert str(table.layouts["e.weight"]) == "e.weight[0]:produces e.weight[1]:produces"
    assert passages(table, "e.weight[0]") == {"lookup"}
    assert passages(table, "e.weight[1]") == ({"pointwise:max"} if mode == "max" else set())
    assert deviation_after_copies(model, IDS, {"e.weight[1]": [0, 1, 2, 3, 1]}) < EXACT


@pytest.mark.parametrize(
    "look_up",
    [
        lambda table, ids: table[ids],
        lambda table, ids: table.index_select(0, ids.flatten()).unflatten(0, ids.shape),
        lambda table, ids: table.expand(2, -1, -1).gather(1, ids[..., None].expand(-1, -1, table.shape[1])),
    ],
)
def test_a_row_of_a_parameter_that_is_looked_up_is_produced(look_up: Callable[[Tensor, Tensor], Tensor]) -> None:
    model = Small(lambda m, ids: m.b(F.relu(look_up(m.w, ids))), w=weight(9, 4), b=nn.Linear(4, 2))
    table = discover(model, IDS)
    assert str(table.layouts["w"]).endswith("w[1]:produces")
    assert reasons(table, "w[1]") == []
    assert deviation_after_copies(model, IDS, {"w[1]": [0, 1, 2, 3, 1]}) < EXACT


def test_what_the_forward_pass_computes_and_looks_up_locks() -> None:
    def run(m: Small, ids: Tensor) -> Tensor:
        waves = torch.sin(torch.arange(9.0)[:, None] * torch.arange(m.n, dtype=torch.float64))
        return m.b(m.e(ids) + waves[ids])

    table = discover(Small(run, e=nn.Embedding(9, 4), b=nn.Linear(4, 2), n=4), IDS)
    assert "it meets a table that the forward pass makes" in reasons(table, "e.weight[1]")[0]


@pytest.mark.parametrize("size", [3, 4])
def test_matrices_that_are_picked_are_weights(size: int) -> None:
    """One matrix for each entry: `'expert out in'` by number gives `'row out in'`."""

    def run(m: Small, ids: Tensor) -> Tensor:
        x = m.e(ids).flatten(0, 1)
        x = torch.bmm(m.w[ids.flatten()], x[..., None]).squeeze(-1) + m.bias[ids.flatten()]
        return m.b(F.relu(x))

    parts = {"e": nn.Embedding(9, 4), "w": weight(9, size, 4), "bias": weight(9, size), "b": nn.Linear(size, 4)}
    model = Small(run, **parts)
    table = discover(model, IDS)
    assert str(table.layouts["w"]) == "w[0] w[1]:produces e.weight[1]:consumes"
    assert str(table.layouts["bias"]) == "bias[0]:produces w[1]:produces"
    assert reasons(table, "w[0]") == ["its units are picked by their number"]
    assert deviation_after_copies(model, IDS, {"w[1]": [*range(size), 1], "e.weight[1]": [0, 1, 2, 3, 3]}) < EXACT


@pytest.mark.parametrize(
    "pick",
    [
        lambda x: x[x[..., 0] > 0],
        lambda x: x[:, torch.arange(7) < 4],
        lambda x: x[torch.tensor([True, False]), 1:3],
        lambda x: x[(x[..., 0] > 0).nonzero(as_tuple=True)],
        lambda x: x.index_select(1, torch.tensor(3)),
        lambda x: x.take_along_dim(torch.zeros(2, 1, 1, dtype=torch.int64), 1),
        lambda x: x.repeat_interleave(2, 1),
        lambda x: x.repeat_interleave(torch.arange(7), 1),
        lambda x: x.topk(2, 1)[0],
        lambda x: x.sort(1)[0],
        lambda x: x.sort(stable=True, dim=1)[0],
        lambda x: x.median(1)[0],
        lambda x: x.kthvalue(2, 1)[0],
    ],
)
def test_picking_frames_leaves_the_features_alone(pick: Callable[[Tensor], Tensor]) -> None:
    model = Small(lambda m, x: m.b(pick(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    table = discover(model, X)
    assert table.layouts["b.weight"].dims[1] == Leaf("a.weight[0]", Role.CONSUMES)
    # the frames that are kept depend on a value here, so that the first unit of a lies on the way
    assert reasons(table, "a.weight[0]") in ([], ["its units are picked by their number"])


def test_copies_pass_what_picks_frames() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x)
        best = x.mean(-1).argsort(1, descending=True)
        x = x[torch.arange(2)[:, None], best]
        return m.b(torch.cat([x.topk(2, 1)[0], x.sort(1)[0]], 1))

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    assert passages(discover(model, X), "a.weight[0]") == {"pointwise:max", "sum"}
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 0, 1, 2, 3]}) < EXACT


@pytest.mark.parametrize(
    ("pick", "reason"),
    [
        (lambda x: x.topk(2)[0], "topk compares its units and picks them by their number"),
        (lambda x: x.sort()[0], "sort compares its units and picks them by their number"),
        (lambda x: x.argsort(), "sort compares its units and picks them by their number"),
        (lambda x: x.median(), "median compares its units and picks them by their number"),
        (lambda x: x.nanmedian(-1)[0], "nanmedian compares its units and picks them by their number"),
        (lambda x: x.mode(-1)[0], "mode compares its units and picks them by their number"),
        (lambda x: x[x > 0], "its units are picked by a mask"),
        (lambda x: x[..., torch.tensor([True, False, True, True])], "its units are picked by a mask"),
        (lambda x: x.masked_select(x > 0), "its units are picked by a mask"),
        (lambda x: x.take(torch.tensor([3])), "its units are picked by their number"),
        (lambda x: x.gather(1, torch.zeros(2, 1, 3, dtype=torch.int64)), "its units are picked by their number"),
        (lambda x: (x > 0).nonzero(), "nonzero finds its units by their number, or counts them"),
        (lambda x: x.unique(), "_unique2 finds its units by their number, or counts them"),
        (lambda x: x.unique_consecutive(), "unique_consecutive finds its units by their number, or counts them"),
        (lambda x: x.histc(3), "histc finds its units by their number, or counts them"),
        (lambda x: (x[0, 0] > 0).long().bincount(), "bincount finds its units by their number, or counts them"),
        (lambda x: torch.isin(x, torch.ones(1)), "isin finds its units by their number, or counts them"),
        (lambda x: torch.searchsorted(x, X[:, :, :1].contiguous()), "entries are looked up among its units"),
        (lambda x: x.repeat_interleave(x[0, 0].long().abs() + 1, -1), "it counts how often units are repeated"),
    ],
)
def test_units_that_are_picked_or_counted_lock(pick: Callable[[Tensor], Tensor], reason: str) -> None:
    table = discover(Small(lambda m, x: pick(m.a(x)), a=nn.Linear(5, 4)), X)
    assert reason in reasons(table, "a.weight[0]")


def test_bounds_are_locked_and_what_is_looked_up_among_them_passes() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(torch.bucketize(m.a(x), m.bounds).double())

    model = Small(run, a=nn.Linear(5, 4), bounds=torch.tensor([-1.0, 0.0, 1.0]), b=nn.Linear(4, 2))
    table = discover(model, X)
    assert reasons(table, "bounds[0]") == ["entries are looked up among its units"]
    assert passages(table, "a.weight[0]") == {"pointwise:ge"}
    assert show(table.layouts["b.weight"].dims) == "b.weight[0]:produces a.weight[0]:consumes"


def test_a_parameter_that_is_ranked_is_locked() -> None:
    table = discover(Small(lambda m, x: m.a(x) + m.w.sort(0)[0], a=nn.Linear(5, 4), w=weight(7, 4)), X)
    assert "a parameter passes sort before it is used" in reasons(table, "w[1]")[0]


def test_rows_with_one_matrix_for_each_group() -> None:
    """The grouped product of experts: float32, since torch has no other on CPU."""

    def run(m: Small, x: Tensor) -> Tensor:
        ends = torch.tensor([3, 3, 14], dtype=torch.int32)
        x = m.a(x.flatten(0, 1))
        return m.b(F.relu(F.grouped_mm(x.float(), m.w.float().mT, offs=ends).double()))

    model = Small(run, a=nn.Linear(5, 4), w=weight(3, 8, 4), b=nn.Linear(8, 2))
    table = discover(model, X)
    assert str(table.layouts["w"]) == "w[0] w[1]:produces a.weight[0]:consumes"
    assert reasons(table, "w[0]") == ["its units are picked by their number"]
    sources = {"w[1]": [*range(8), *range(8)], "a.weight[0]": [0, 1, 2, 3, 0, 1, 2, 3]}
    assert deviation_after_copies(model, X, sources) < 1e-6
