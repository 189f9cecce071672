"""Tests of the rules of windows and of sampling at places."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight

PLANE, VOLUME = torch.rand(2, 3, 8, 6).double(), torch.rand(2, 3, 4, 6, 4).double()
PLACES, PLACES3 = torch.rand(2, 5, 5, 2).double(), torch.rand(2, 3, 3, 3, 3).double()


@pytest.mark.parametrize(
    ("x", "use", "kinds"),
    [
        (PLANE, lambda x: F.fold(F.unfold(x, 3, padding=1), (8, 6), 3, padding=1), set()),
        (PLANE, lambda x: x.unfold(2, 3, 2).mean(-1), set()),
        (PLANE, lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), {"pointwise:max_pool"}),
        (VOLUME, lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), {"pointwise:max_pool"}),
        (PLANE, lambda x: F.grid_sample(x, PLACES, align_corners=False), set()),
        (VOLUME, lambda x: F.grid_sample(x, PLACES3, mode="nearest", align_corners=True), set()),
    ],
)
@pytest.mark.parametrize("size", [3, 4])
def test_channels_pass_one_by_one(x: Tensor, use: Callable[[Tensor], Tensor], kinds: set[str], size: int) -> None:
    conv = (nn.Conv2d, nn.Conv3d)[x.dim() - 4]
    model = Small(lambda m, x: m.b(use(m.a(x))), a=conv(3, size, 1), b=conv(size, 2, 1))
    table = discover(model, x)
    assert passages(table, "a.weight[0]") == kinds
    assert reasons(table, "a.weight[0]") == []
    assert deviation_after_copies(model, x, {"a.weight[0]": [*range(size), 0]}) < 1e-12


def test_windows_of_channels_are_read_as_a_product() -> None:
    model = Small(lambda m, x: m.b(F.unfold(m.a(x), 2, stride=2).mT), a=nn.Conv2d(3, 5, 1), b=nn.Linear(20, 2))
    table = discover(model, PLANE)
    assert str(table.layouts["b.weight"]) == "b.weight[0]:produces (a.weight[0] b.weight[1].1):consumes"
    assert "it counts the places of a window" in reasons(table, "b.weight[1].1")
    assert deviation_after_copies(model, PLANE, {"a.weight[0]": [0, 1, 2, 3, 4, 4]}) < 1e-12


def test_places_that_are_computed_are_coordinates() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        turn = m.turn(x.mean((2, 3))).unflatten(-1, (2, 3))
        return m.b(F.grid_sample(m.a(x), F.affine_grid(turn, (2, 1, 5, 5), align_corners=False), align_corners=False))

    model = Small(run, turn=nn.Linear(3, 6), a=nn.Conv2d(3, 4, 1), b=nn.Conv2d(4, 2, 1))
    table = discover(model, PLANE)
    for axis in ("turn.weight[0].0", "turn.weight[0].1"):
        assert "it holds the coordinates of a place" in reasons(table, axis)
    assert reasons(table, "a.weight[0]") == []


def test_windows_of_features_lock_them() -> None:
    table = discover(Small(lambda m, x: m.a(x).unfold(-1, 2, 1), a=nn.Linear(5, 4)), X)
    assert "windows are cut out of it" in reasons(table, "a.weight[0]")


def test_a_parameter_that_is_folded_or_sampled_is_locked() -> None:
    model = Small(
        lambda m, x: x[..., :1, :1] + F.grid_sample(m.w, PLACES[:1], align_corners=False).sum(), w=weight(1, 3, 4, 4)
    )
    table = discover(model, PLANE)
    assert "a parameter passes grid_sampler_2d" in reasons(table, "w[1]")[0]
