"""Tests of the rules of pooling, resizing and padding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight

LINE, PLANE, VOLUME = torch.rand(2, 3, 8).double(), torch.rand(2, 3, 8, 6).double(), torch.rand(2, 3, 4, 6, 4).double()

LINEAR: list[tuple[Tensor, Callable[[Tensor], Tensor]]] = [
    (LINE, lambda x: F.avg_pool1d(x, 2)),
    (PLANE, lambda x: F.avg_pool2d(x, 2)),
    (VOLUME, lambda x: F.avg_pool3d(x, 2)),
    (LINE, lambda x: F.adaptive_avg_pool1d(x, 2)),
    (PLANE, lambda x: F.adaptive_avg_pool2d(x, 2)),
    (VOLUME, lambda x: F.adaptive_avg_pool3d(x, 2)),
    *((x, lambda x: F.interpolate(x, scale_factor=2)) for x in (LINE, PLANE, VOLUME)),
    (LINE, lambda x: F.interpolate(x, scale_factor=2, mode="linear")),
    (PLANE, lambda x: F.interpolate(x, size=(5, 7), mode="bilinear")),
    (PLANE, lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")),
    (VOLUME, lambda x: F.interpolate(x, scale_factor=2, mode="trilinear")),
    (PLANE, lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
    (LINE, lambda x: F.pad(x, (1, 1), mode="replicate")),
]
MAXIMUM: list[tuple[Tensor, Callable[[Tensor], Tensor]]] = [
    (LINE, lambda x: F.max_pool1d(x, 2)),
    (PLANE, lambda x: F.max_pool2d(x, 3, 1, 1)),
    (VOLUME, lambda x: F.max_pool3d(x, 2)),
    (LINE, lambda x: F.adaptive_max_pool1d(x, 2)),
    (PLANE, lambda x: F.adaptive_max_pool2d(x, 2)),
    (VOLUME, lambda x: F.adaptive_max_pool3d(x, 2)),
]


@pytest.mark.parametrize(("x", "pool"), LINEAR)
def test_averages_are_linear_in_each_channel(x: Tensor, pool: Callable[[Tensor], Tensor]) -> None:
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[x.dim() - 3]
    table = discover(Small(lambda m, x: m.b(pool(m.a(x))), a=conv(3, 4, 1), b=conv(4, 2, 1)), x)
    assert passages(table, "a.weight[0]") == set()
    assert str(table.layouts["b.weight"]).startswith("b.weight[0]:produces a.weight[0]:consumes")


@pytest.mark.parametrize(("x", "pool"), MAXIMUM)
def test_maxima_let_copies_pass(x: Tensor, pool: Callable[[Tensor], Tensor]) -> None:
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[x.dim() - 3]
    table = discover(Small(lambda m, x: m.b(pool(m.a(x))), a=conv(3, 4, 1), b=conv(4, 2, 1)), x)
    assert passages(table, "a.weight[0]") == {"pointwise:max_pool"}
    assert str(table.layouts["b.weight"]).startswith("b.weight[0]:produces a.weight[0]:consumes")


def test_pooling_over_features_locks_them() -> None:
    for pool in (F.avg_pool1d, F.max_pool1d):
        table = discover(Small(lambda m, x, f=pool: f(m.a(x), 2), a=nn.Linear(5, 4)), X)
        assert "runs over it" in reasons(table, "a.weight[0]")[0]


def test_a_parameter_is_pooled_along_places_only() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.a(x) + F.avg_pool1d(m.w[None], 1)[0]

    table = discover(Small(run, a=nn.Linear(5, 4), w=weight(7, 4)), X)
    assert reasons(table, "w[1]") == ["avg_pool2d runs over it"]  # torch pools it as a picture of one line


@pytest.mark.parametrize(
    "resize",
    [
        lambda w: F.interpolate(w[None], (3, 3), mode="bilinear")[0],
        lambda w: F.interpolate(w[None], (3, 3), mode="nearest")[0],
        lambda w: F.adaptive_max_pool2d(w, (3, 3)),
    ],
)
def test_a_table_of_positions_that_is_resized_grows_along_its_channels(resize: Callable[[Tensor], Tensor]) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(m.a(x)[:, :3, None] + resize(m.table).permute(1, 2, 0))

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2), table=weight(4, 5, 5))
    table = discover(model, X)
    assert str(table.layouts["table"]).startswith("a.weight[0]:produces ")
    assert reasons(table, "a.weight[0]") == []
    assert deviation_after_copies(model, X, {"a.weight[0]": [0, 1, 2, 3, 1, 3, 3]}) < 1e-12
    assert "runs over it" in reasons(table, "table[1]")[0]
