"""Tests of the rules of norms."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from growkit.discovery.discover import discover
from growkit.testing import randomise
from growkit.testing.sweep import Sweep
from tests.discovery.models import Small, X, passages


def test_layer_norm() -> None:
    table = discover(Small(lambda m, x: m.b(m.n(m.a(x))), a=nn.Linear(5, 4), n=nn.LayerNorm(4), b=nn.Linear(4, 2)), X)
    assert str(table.layouts["n.weight"]) == "a.weight[0]:gain"
    assert str(table.layouts["n.bias"]) == "a.weight[0]:bias"
    assert passages(table, "a.weight[0]") == {"layer_norm", "centred"}
    assert [(n.path, n.index, n.value, n.read) for n in table.numbers if n.path == "n.normalized_shape"] == [
        ("n.normalized_shape", 0, 4, True)
    ]


def test_a_norm_over_head_dims_is_nonlinear_for_each_head() -> None:
    def run(m: Small, x: object) -> object:
        return m.n(m.a(x).unflatten(-1, (m.heads, -1)))

    table = discover(Small(run, a=nn.Linear(5, 6), n=nn.LayerNorm(3), heads=2), X)
    assert passages(table, "a.weight[0].0") == {"pointwise:layer_norm", "output"}
    assert passages(table, "a.weight[0].1") == {"layer_norm", "output", "uncentred"}


def test_batch_norm_and_its_statistics() -> None:
    model = Small(lambda m, x: m.n(m.a(x).transpose(1, 2)), a=nn.Linear(5, 4), n=nn.BatchNorm1d(4))
    table = discover(model, X)
    assert [str(table.layouts[f"n.{name}"]) for name in ("weight", "bias", "running_mean", "running_var")] == [
        f"a.weight[0]:{role}" for role in ("gain", "bias", "mean", "variance")
    ]
    assert passages(table, "a.weight[0]") == {"batch_norm", "output"}
    assert table.unreached == ()


def test_rms_norm_takes_statistics_over_the_features() -> None:
    table = discover(Small(lambda m, x: m.n(m.a(x)), a=nn.Linear(5, 4), n=nn.RMSNorm(4)), X)
    assert passages(table, "a.weight[0]") & {"rms_norm", "mean_square"}
    assert str(table.layouts["n.weight"]) == "a.weight[0]:gain"


def test_group_norm_splits_channels() -> None:
    model = Small(lambda m, x: m.n(m.a(x).transpose(1, 2)), a=nn.Linear(5, 6), n=nn.GroupNorm(2, 6))
    table = discover(model, X)
    assert str(table.layouts["n.weight"]) == "(a.weight[0].0 a.weight[0].1):gain"
    assert passages(table, "a.weight[0].0") == {"norm_groups", "output"}
    assert passages(table, "a.weight[0].1") == {"group_norm", "output beside others"}
    assert [str(n.sizes[0].axis) for n in table.numbers if n.path == "n.num_groups"] == ["a.weight[0].0"]


def test_instance_norm_treats_each_channel_alone() -> None:
    for norm in (
        nn.InstanceNorm1d(4),
        nn.InstanceNorm1d(4, affine=True),
        nn.InstanceNorm1d(4, track_running_stats=True),
    ):
        table = discover(Small(lambda m, x: m.n(m.a(x).transpose(1, 2)), a=nn.Linear(5, 4), n=norm), X)
        assert passages(table, "a.weight[0]") == {"batch_norm", "output"}
        assert table["n.num_features"] == table["a.weight[0]"]
        assert table.unreached == ()


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_a_norm_over_several_values_of_each_unit(norm: type[nn.Module]) -> None:
    """As over those of merged patches: exact, or refused without a look at values."""

    def run(m: Small, x: Tensor) -> Tensor:
        x = m.enter(x)
        return m.leave(m.norm(torch.cat([x[:, 0::2], x[:, 1::2]], -1)))

    model = Small(run, enter=nn.Linear(5, 3), norm=norm(6, eps=1e-3), leave=nn.Linear(6, 2))
    sweep = Sweep(randomise(model.double()).eval(), X[:, :6])
    sweep.every_axis()
    assert sweep.of("wrong") == sweep.of("caught") == []
    exact = {(a.method, a.widen["enter.weight[0]"]) for a in sweep.of("exact") if "enter.weight[0]" in a.widen}
    assert ("copy", 6) in exact
    assert (("zero_pad", 4) in exact) is (norm is nn.RMSNorm)
    assert ("mean_pad", 4) not in exact
