"""Tests of the rules of ops that write entries to places that an index or a mask names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight

EXACT = 1e-12
ROWS = torch.tensor([4, 0, 2])
"""Three of seven frames."""


def _put(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[:, ROWS] = y[:, :3]
    return x


def _put_by_mask(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[y[..., :1].mean(-1) > 0] = 0.0
    return x


def _index(y: Tensor) -> Tensor:
    return ROWS[None, :, None].expand(y.shape[0], -1, y.shape[-1])


@pytest.mark.parametrize(
    "write",
    [
        _put,
        lambda x, y: x.index_put((torch.tensor([0, 1, 1])[:, None], ROWS), y[0, :3], accumulate=True),
        lambda x, y: x.index_add(1, ROWS, y[:, :3], alpha=0.5),
        lambda x, y: torch.zeros_like(x).index_add_(1, ROWS, y[:, :3]),
        lambda x, y: x + torch.zeros(*y.shape, dtype=x.dtype).index_add_(1, ROWS, y[:, :3]),
        lambda x, y: x.index_copy(1, ROWS, y[:, :3]),
        lambda x, y: x.clone().index_copy_(1, ROWS, y[:, :3]),
        lambda x, y: x.scatter_reduce(1, _index(y), y[:, :3], "mean"),
        lambda x, y: x.index_fill(1, ROWS, 0.0) + y,
        lambda x, y: x.scatter(1, _index(y), y[:, :3]),
        lambda x, y: x.scatter(1, _index(y), 0.0) + y,
        lambda x, y: torch.zeros_like(x).scatter_add_(1, _index(y), y[:, :3]),
        lambda x, y: x.scatter_reduce(1, _index(y), y[:, :3], "sum"),
        lambda x, y: x.slice_scatter(y[:, :3], 1, 2, 5),
        lambda x, y: x.slice_scatter(y[:, :3], 1, 0, 6, 2),
        lambda x, y: x.select_scatter(y[:, 0], 1, 4),
        lambda x, y: x.masked_scatter((torch.arange(7) % 2 == 0)[:, None].expand_as(x), y[:, :4]),
        lambda x, y: x.masked_scatter((torch.arange(7) % 2 == 0)[:, None], y[:, :4].flatten(0, 1)),
    ],
)
@pytest.mark.parametrize("size", [4, 5, 7])
def test_writing_frames_ties_the_features_and_lets_all_pass(
    write: Callable[[Tensor, Tensor], Tensor], size: int
) -> None:
    model = Small(
        lambda m, x: m.c(write(m.a(x), m.b(x))), a=nn.Linear(5, size), b=nn.Linear(5, size), c=nn.Linear(size, 2)
    )
    table = discover(model, X)
    assert str(table.layouts["b.weight"]) == "a.weight[0]:produces a.weight[1]:consumes"
    assert str(table.layouts["c.weight"]) == "c.weight[0]:produces a.weight[0]:consumes"
    assert reasons(table, "a.weight[0]") == []
    assert passages(table, "a.weight[0]") <= {"residual"}
    assert deviation_after_copies(model, X, {"a.weight[0]": [*range(size), 0, 0, 2]}) < EXACT


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.index_fill(1, ROWS, 1.0),
        lambda x: x.index_put((torch.tensor([0]), torch.tensor([2])), torch.tensor(2.0).double()),
        lambda x: x.scatter(1, torch.zeros(2, 1, x.shape[-1], dtype=torch.int64), 1.0),
        lambda x: torch.ones_like(x).index_add_(1, ROWS, x[:, :3]),
    ],
)
def test_numbers_that_are_written_stop_scales(write: Callable[[Tensor], Tensor]) -> None:
    model = Small(lambda m, x: m.b(write(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    table = discover(model, X)
    assert passages(table, "a.weight[0]") & {"pointwise:masked_fill", "shifted"}
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 0]}) < EXACT


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda x: x.index_add(2, torch.tensor([0, 1, 2, 3]), x), "its units are placed by their number"),
        (lambda x: torch.zeros(2, 7, 9).index_copy_(2, torch.tensor([3, 2, 1, 0]), x.float()), "its units are placed"),
        (lambda x: x.scatter(2, x.argsort(2), x), "its units are placed by their number"),
        (lambda x: x.scatter(1, torch.zeros(2, 7, 3, dtype=torch.int64), 1.0), "its units are placed by their number"),
        (lambda x: x.index_fill(2, torch.tensor([0]), 0), "its units are placed by their number"),
        (
            lambda x: x.mT.flatten(0, 1).index_put((torch.tensor([0]),), x[0, :, 0]),
            "its units are picked by their number",
        ),
        (lambda x: x.index_put((x > 0,), torch.tensor(0.0).double()), "its units are picked by a mask"),
        (lambda x: x.masked_scatter(x > 0, x), "its units are placed by a mask"),
        (lambda x: x.select_scatter(x[..., 0], 2, 1), "its units are picked by their number"),
        (lambda x: x.slice_scatter(x[..., ::3], 2, 0, 4, 3), "its units are placed by their number"),
        (lambda x: x.put(torch.tensor([3]), torch.ones(1).double()), "is no op that growkit knows"),
    ],
)
def test_units_that_are_placed_by_number_lock(write: Callable[[Tensor], Tensor], reason: str) -> None:
    table = discover(Small(lambda m, x: write(m.a(x)), a=nn.Linear(5, 4)), X)
    assert any(reason in found for found in reasons(table, "a.weight[0]"))


def test_a_product_of_what_meets_stops_scales() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(x.scatter_reduce(1, _index(x), x[:, :3], "amax"))

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    assert passages(discover(model, X), "a.weight[0]") == {"pointwise:prod"}
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 0]}) < EXACT


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
def test_a_mean_of_what_meets_is_linear() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(x.index_reduce(1, ROWS, x[:, :3], "mean"))

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    assert passages(discover(model, X), "a.weight[0]") == set()
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 0]}) < EXACT


def test_a_mask_embedding_produces() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        hidden = m.a(x)
        hidden[x[..., 0] > 0] = m.masked
        return m.b(hidden)

    model = Small(run, a=nn.Linear(5, 4), masked=weight(4), b=nn.Linear(4, 2))
    table = discover(model, X)
    assert str(table.layouts["masked"]) == "a.weight[0]:produces"
    assert reasons(table, "a.weight[0]") == []
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 0]}) < EXACT


TABLE = torch.arange(24.0).double().view(2, 3, 4)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.index_copy(1, ROWS, TABLE),
        lambda x: x.scatter(1, _index(x), TABLE),
        lambda x: x.slice_scatter(TABLE, 1, 2, 5),
        lambda x: TABLE.clone().index_add(1, torch.tensor([2, 0]), x[:, :2]),
        lambda x: TABLE.clone().index_add_(1, torch.tensor([2, 0]), x[:, :2]),
    ],
)
def test_a_table_that_is_written_or_written_to_locks(write: Callable[[Tensor], Tensor]) -> None:
    table = discover(Small(lambda m, x: m.b(write(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2)), X)
    assert any("a table that the forward pass makes" in reason for reason in reasons(table, "a.weight[0]"))


@pytest.mark.parametrize("size", [3, 4])
def test_slices_that_are_written_make_a_concatenation(size: int) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        first, second = m.a(x), m.b(x)
        both = torch.zeros(*x.shape[:-1], first.shape[-1] + second.shape[-1], dtype=x.dtype)
        both[..., : first.shape[-1]] = first
        both[..., first.shape[-1] :].add_(second)
        return m.c(both)

    model = Small(run, a=nn.Linear(5, size), b=nn.Linear(5, 4), c=nn.Linear(size + 4, 2))
    table = discover(model, X)
    assert str(table.layouts["c.weight"]) == "c.weight[0]:produces [a.weight[0]|b.weight[0]]:consumes"
    assert reasons(table, "a.weight[0]") == reasons(table, "b.weight[0]") == []
    assert deviation_after_copies(model, X, {"a.weight[0]": [*range(size), 0], "b.weight[0]": [0, 1, 2, 3, 3]}) < EXACT


def test_an_axis_that_fills_a_part_of_a_tensor_leaves_the_rest_without_one() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        wider = x.new_zeros(2, 7, 6)
        wider[..., :4] = m.a(x)
        return m.c(wider)

    table = discover(Small(run, a=nn.Linear(5, 4), c=nn.Linear(6, 2)), X)
    assert str(table.layouts["c.weight"]) == "c.weight[0]:produces [a.weight[0]|c.weight[1].1]:consumes"
    assert any("written in the code" in reason for reason in reasons(table, "a.weight[0]"))
    assert reasons(table, "c.weight[1].1")


@pytest.mark.parametrize(
    "frames",
    [
        lambda x: F.pad(x.mT, (2, 3), mode="circular").mT,
        lambda x: nn.utils.rnn.pad_sequence([x[0, :4], x[1]], batch_first=True),
        lambda x: x.new_zeros(2, 9, x.shape[-1]).slice_scatter(x, 1, 1, 8),
    ],
)
def test_frames_that_are_copied_into_a_longer_tensor_keep_their_features(frames: Callable[[Tensor], Tensor]) -> None:
    model = Small(lambda m, x: m.b(frames(m.a(x))), a=nn.Linear(5, 4), b=nn.Linear(4, 2))
    table = discover(model, X)
    assert reasons(table, "a.weight[0]") == []
    assert passages(table, "a.weight[0]") == set()
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 0]}) < EXACT


def test_what_lies_beside_a_slice_that_is_written_counts() -> None:
    def run(m: Small, x: Tensor, start: Tensor) -> Tensor:
        target = start.clone()
        target[:, :7] = m.a(x)
        return m.b(target)

    def found(start: Tensor) -> tuple[set[str], list[str]]:
        model = Small(lambda m, x: run(m, x, start), a=nn.Linear(5, 4), b=nn.Linear(4, 2))
        table = discover(model, X)
        return passages(table, "a.weight[0]"), reasons(table, "a.weight[0]")

    assert found(torch.zeros(2, 9, 4).double()) == (set(), [])
    assert found(torch.ones(2, 9, 4).double()) == ({"pointwise:masked_fill"}, [])
    assert "a table that the forward pass makes" in found(torch.arange(72.0).double().view(2, 9, 4))[1][0]


# Routing: k of several experts for each row, combined by their shares


def _each_expert(m: Small, x: Tensor, shares: Tensor, best: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    hits = F.one_hot(best, m.experts + 1).permute(2, 1, 0)
    for (expert,) in torch.greater(hits.sum((-1, -2)), 0).nonzero():
        at, row = torch.where(hits[expert])
        value, gate = F.linear(x[row], m.up[expert]).chunk(2, dim=-1)
        out.index_add_(0, row, F.linear(value * F.silu(gate), m.down[expert]) * shares[row, at, None])
    return out


def _each_row(m: Small, x: Tensor, shares: Tensor, best: Tensor) -> Tensor:
    rows = x.repeat_interleave(best.shape[1], 0)
    value, gate = torch.bmm(m.up[best.flatten()], rows[..., None]).squeeze(-1).chunk(2, dim=-1)
    out = torch.bmm(m.down[best.flatten()], (value * F.silu(gate))[..., None]).squeeze(-1)
    return (out * shares.flatten()[:, None]).view(*best.shape, x.shape[-1]).sum(1)


def _sorted_rows(m: Small, x: Tensor, shares: Tensor, best: Tensor) -> Tensor:
    _, order = best.flatten().sort()
    counts = best.flatten().bincount(minlength=m.experts)
    out, start = [], 0
    for expert, end in enumerate(counts.cumsum(0).tolist()):
        value, gate = F.linear(x[order[start:end] // best.shape[1]], m.up[expert]).chunk(2, dim=-1)
        out.append(F.linear(value * F.silu(gate), m.down[expert]))
        start = end
    mixed = torch.cat(out) * shares.flatten()[order, None]
    back = torch.empty_like(order)
    back[order] = torch.arange(order.shape[0])
    return mixed[back].view(*best.shape, x.shape[-1]).sum(1)


def _every_expert(m: Small, x: Tensor, shares: Tensor, best: Tensor) -> Tensor:
    dense = torch.zeros(x.shape[0], m.experts, dtype=x.dtype).scatter_(1, best, shares)
    value, gate = torch.einsum("nd,ehd->neh", x, m.up).chunk(2, dim=-1)
    return torch.einsum("neh,edh,ne->nd", value * F.silu(gate), m.down, dense)


@pytest.mark.parametrize("hidden", [3, 4])
@pytest.mark.parametrize("route", [_each_expert, _each_row, _sorted_rows, _every_expert])
def test_experts_grow_in_width_but_not_in_number(
    route: Callable[[Small, Tensor, Tensor, Tensor], Tensor], hidden: int
) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x.flatten(0, 1))
        shares, best = m.gate(x).softmax(-1).topk(m.k, -1)
        shares = shares / shares.sum(-1, keepdim=True)
        return m.b(x + route(m, x, shares, best))

    parts = {"gate": nn.Linear(4, 4), "up": weight(4, 2 * hidden, 4), "down": weight(4, 4, hidden), "experts": 4}
    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2), k=2, **parts)
    table = discover(model, X)
    assert str(table.layouts["up"]).split(" ", 1)[1] == "[up[1].0|up[1].0]:produces down[1]:consumes"
    assert str(table.layouts["down"]).split(" ", 1)[1] == "down[1]:produces up[1].0:consumes"
    assert str(table.layouts["gate.weight"]) == "gate.weight[0]:produces down[1]:consumes"
    assert reasons(table, "up[1].0") == reasons(table, "down[1]") == []
    assert reasons(table, "up[0]")
    assert reasons(table, "down[0]")
    assert any("topk compares its units" in reason for reason in reasons(table, "gate.weight[0]"))
    assert deviation_after_copies(model, X, {"up[1].0": [*range(hidden), 0], "down[1]": [0, 1, 2, 3, 1]}) < EXACT
