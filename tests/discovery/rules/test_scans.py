"""Tests of the rules of scans and of what else depends on the order of units."""

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


@pytest.mark.parametrize(
    ("scan", "kinds"),
    [
        (lambda x: x.cumsum(1), set()),
        (lambda x: x.clone().cumsum_(1), set()),
        (lambda x: x.cumprod(1), {"pointwise:prod"}),
        (lambda x: x.logcumsumexp(1), {"pointwise:prod"}),
        (lambda x: x.cummax(1)[0], {"pointwise:max"}),
        (lambda x: x.cummin(1).values, {"pointwise:max"}),
        (lambda x: x.flip(1), set()),
        (lambda x: x.flip(0, 1), set()),
        (lambda x: x.roll(2, 1), set()),
        (lambda x: x.rot90(1, (0, 1)), set()),
        (lambda x: x.mT.unsqueeze(-1).expand(-1, -1, -1, 7).tril().sum(-1).mT, set()),
        (lambda x: x.mT.unsqueeze(-1).expand(-1, -1, -1, 7).triu().diagonal(dim1=-2, dim2=-1).mT, set()),
        (lambda x: x.diff(dim=1), {"residual"}),
    ],
)
@pytest.mark.parametrize("size", [4, 7])
def test_a_scan_over_frames_leaves_the_features_alone(
    scan: Callable[[Tensor], Tensor], kinds: set[str], size: int
) -> None:
    model = Small(lambda m, x: m.b(scan(m.a(x))), a=nn.Linear(5, size), b=nn.Linear(size, 2))
    table = discover(model, X)
    assert passages(table, "a.weight[0]") == kinds
    assert reasons(table, "a.weight[0]") == []
    assert str(table.layouts["b.weight"]) == "b.weight[0]:produces a.weight[0]:consumes"
    assert deviation_after_copies(model, X, {"a.weight[0]": [*range(size), 0, 2]}) < EXACT


@pytest.mark.parametrize(
    ("scan", "op"),
    [
        (lambda x: x.cumsum(-1), "cumsum"),
        (lambda x: x.cumprod(2), "cumprod"),
        (lambda x: x.cummax(-1)[0], "cummax"),
        (lambda x: x.flip(-1), "flip"),
        (lambda x: x.roll(1, -1), "roll"),
        (lambda x: x.roll(1), "roll"),
        (lambda x: x.tril(), "tril"),
        (lambda x: x.diagonal(dim1=1, dim2=2), "diagonal"),
    ],
)
def test_a_scan_over_features_locks_them(scan: Callable[[Tensor], Tensor], op: str) -> None:
    table = discover(Small(lambda m, x: scan(m.a(x)), a=nn.Linear(5, 4)), X)
    assert reasons(table, "a.weight[0]") == [f"{op} depends on the order of its units"]


def test_a_parameter_that_passes_a_product_scan_is_locked() -> None:
    table = discover(Small(lambda m, x: m.a(x) * m.w.cumprod(0), a=nn.Linear(5, 4), w=weight(7, 4)), X)
    assert "a parameter passes cumprod before it is used" in reasons(table, "w[1]")[0]


def _selective_scan(m: Small, x: Tensor) -> Tensor:
    """A block as in Mamba (Gu and Dao 2023, arXiv 2312.00752, algorithm 2): causal convolution, scan, gate."""
    inner, gate = m.enter(m.norm(x)).chunk(2, dim=-1)
    inner = F.silu(m.conv(inner.mT)[..., : x.shape[1]].mT)
    rank, write, read = m.select(inner).split([m.rank, m.state, m.state], dim=-1)
    step = F.softplus(m.step(rank))
    decay = torch.exp(step[..., None] * -torch.exp(m.log_rate))
    update = (step * inner)[..., None] * write[:, :, None]
    state, found = torch.zeros_like(update[:, 0]), []
    for t in range(x.shape[1]):
        state = decay[:, t] * state + update[:, t]
        found.append((state @ read[:, t, :, None]).squeeze(-1))
    return x + m.leave((torch.stack(found, 1) + inner * m.skip) * F.silu(gate))


@pytest.mark.parametrize(("inner", "state", "rank"), [(6, 3, 2), (5, 5, 5)])
def test_a_selective_scan_grows(inner: int, state: int, rank: int) -> None:
    model = Small(
        _selective_scan,
        enter=nn.Linear(5, 2 * inner),
        norm=nn.LayerNorm(5),
        conv=nn.Conv1d(inner, inner, 4, groups=inner, padding=3),
        select=nn.Linear(inner, rank + 2 * state, bias=False),
        step=nn.Linear(rank, inner),
        log_rate=weight(inner, state),
        skip=weight(inner),
        leave=nn.Linear(inner, 5),
        rank=rank,
        state=state,
    )
    table = discover(model, X)
    named = {
        "log_rate": "inner:gain state:produces",
        "skip": "inner:gain",
        "enter.weight": "[inner|inner]:produces stream:consumes",
        "conv.weight": "inner:gain 1 conv.weight[2]",
        "select.weight": "[rank|state|state]:produces inner:consumes",
        "step.weight": "inner:produces rank:consumes",
        "leave.weight": "stream:produces inner:consumes",
    }
    axes = {
        "inner": str(table.layouts["skip"]).partition(":")[0],
        "state": str(table.layouts["log_rate"]).split(" ")[1].partition(":")[0],
        "rank": str(table.layouts["step.weight"]).split(" ")[1].partition(":")[0],
        "stream": str(table.layouts["leave.bias"]).partition(":")[0],
    }
    for tensor, text in named.items():
        assert str(table.layouts[tensor].rename({mine: label for label, mine in axes.items()})) == text
    assert reasons(table, axes["inner"]) == reasons(table, axes["rank"]) == []
    (grown_state,) = table[axes["state"]]
    assert any("fresh" in admitted for admitted in grown_state.admits)  # what reads the state is silent in new units
    sources = {axes["inner"]: [*range(inner), 0, 3], axes["rank"]: [*range(rank), 1]}
    assert deviation_after_copies(model, X, sources) < EXACT
