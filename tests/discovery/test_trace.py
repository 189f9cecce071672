"""Tests of the traced run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks
from torch.utils._pytree import tree_leaves

from growkit.axes.reading import settle
from growkit.discovery import rules as rules
from growkit.discovery.call import Nature
from growkit.discovery.discover import discover
from growkit.discovery.trace import Tracer
from growkit.growth.planning import make_plan
from growkit.nn.contents import Contents
from tests.discovery.models import Small, X, passages, reasons, unknown


def test_places_are_module_paths_with_the_op_where_it_is_no_module_s_own() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.act = nn.Linear(5, 4), nn.GELU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.act(self.layer(x)))

    model = nn.Sequential(Block())
    tracer = Tracer(Contents(model))
    x = torch.randn(2, 5)
    tracer.enter_input(x)
    with tracer.running():
        result = model(x)
    tracer.note_passages([result], model)
    tracer.leave_output(result)
    settle(tracer.axes)
    (node,) = tracer.held["0.layer.weight"][0]
    found = {p.kind: p.where for p in tracer.axes.shared(node).passages}
    assert found == {"pointwise:gelu": "0.act", "pointwise:relu": "0 (relu)", "output": "output"}
    assert tracer.read == {"0.layer.weight", "0.layer.bias"}


def test_parameters_weigh_buffers_are_constant_inputs_active() -> None:
    model = nn.BatchNorm1d(3)
    tracer = Tracer(Contents(model))
    x = torch.randn(2, 3)
    tracer.enter_input(x)
    assert tracer.known(model.weight).nature is Nature.WEIGHT
    assert tracer.known(model.running_mean).nature is Nature.CONSTANT
    assert tracer.known(x).nature is Nature.ACTIVATION
    assert tracer.known(torch.ones(2)).nature is Nature.CONSTANT


def test_hooks_and_modes_are_gone_after_an_error() -> None:
    model = nn.Linear(5, 4)
    with pytest.raises(RuntimeError), Tracer(Contents(model)).running():
        model(torch.zeros(2, 3))
    assert not module_hooks._global_forward_hooks
    assert not module_hooks._global_forward_pre_hooks
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.is_grad_enabled()


def test_an_op_without_rule_locks_what_it_meets_and_what_it_makes() -> None:
    model = nn.Linear(5, 4)
    tracer = Tracer(Contents(model))
    x = torch.randn(2, 5)
    tracer.enter_input(x)
    with tracer.running():
        y = unknown(model(x))
    for dim in (tracer.held["weight"][0], tracer.dims(y)[1]):
        assert list(tracer.axes.shared(dim[0]).locks.values()) == [True]
    assert tracer.axes.root(tracer.dims(y)[1][0]) is not tracer.axes.root(tracer.held["weight"][0][0])


def test_what_changes_its_own_shape_is_followed() -> None:
    model = nn.Linear(5, 4)
    tracer = Tracer(Contents(model))
    x = torch.randn(1, 5)
    tracer.enter_input(x)
    with tracer.running():
        y = model(x).unsqueeze_(0).squeeze_().t_()
    assert tracer.dims(y) == [tracer.held["weight"][0]]


def test_torch_takes_no_module_for_hooked_afterwards() -> None:
    hooks = torch.nn.modules.module
    discover(nn.Linear(2, 3), torch.randn(4, 2))
    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_hooks_with_kwargs
    assert not hooks._global_forward_hooks_always_called


@pytest.mark.parametrize(
    ("branch", "where"),
    [
        (lambda x: x.sum() > 0, "Small (item)"),
        (lambda x: x.sum().item() > 0, "Small (item)"),
        (lambda x: x.sum(-1).tolist(), "Small (tolist)"),
    ],
)
def test_a_branch_on_values_is_warned_of(branch: Any, where: str) -> None:
    table = discover(Small(lambda m, x: m.a(x) if branch(x) else m.a(-x), a=nn.Linear(5, 4)), X)
    assert table.warnings == (f"the run branches on values at {where}: other branches were not seen",)
    assert str(table).endswith(f"warning: {table.warnings[0]}")
    assert table.warnings[0] in make_plan(table, {"a.weight[0]": 6}).warnings


def test_values_of_buffers_are_no_warning() -> None:
    model = Small(lambda m, x: m.a(x) if m.on > 0 else x, a=nn.Linear(5, 4), on=torch.ones(()))
    assert discover(model, X).warnings == ()


@pytest.mark.parametrize("kept", [lambda t: t, lambda t: [t], lambda t: {"mask": (t,)}])
def test_plain_tensors_of_modules_lock_what_they_meet(kept: Any) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        (mask,) = tree_leaves(m.kept[0])
        return m.b(m.a(x) * mask)

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 3))
    model.kept = (kept(torch.ones(4, dtype=torch.float64)),)
    table = discover(model, X)
    assert reasons(table, "a.weight[0]") == ["a tensor that is no parameter or buffer has it"]
    assert reasons(table, "b.weight[0]") == []


@pytest.mark.parametrize(
    ("use", "counts"),
    [
        (lambda m, y: None, False),
        (lambda m, y: y.shape, False),
        (lambda m, y: y, True),
        (lambda m, y: y.clone(), True),
        (lambda m, y: setattr(m, "kept", y), True),
        (lambda m, y: m.log.append({"last": y}), True),
        (lambda m, y: float(y.sum()), True),
        (lambda m, y: y.numpy().sum(), True),
        (lambda m, y: m.total.add_(y.sum()), True),
    ],
)
def test_what_nothing_reads_is_no_passage(use: Any, counts: bool) -> None:
    def run(m: Small, x: Tensor) -> Any:
        y = m.a(x)
        used = use(m, y.var(-1))
        return m.b(y), used if isinstance(used, Tensor) else None

    model = Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2), log=[], total=torch.zeros(()))
    assert ("reduce:var" in passages(discover(model, X), "a.weight[0]")) is counts


def test_tensors_in_objects_of_modules_lock_and_caches_that_are_not_read_are_named() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(m.a(x) * m.store.gain)

    store = SimpleNamespace(gain=torch.ones(4, dtype=torch.float64), old={"mask": torch.ones(3)})
    table = discover(Small(run, a=nn.Linear(5, 4), b=nn.Linear(4, 2), store=store), X)
    (lock,) = table.by_name["a.weight[0]"].locks
    assert (lock.reason, lock.where) == ("a tensor that is no parameter or buffer has it", "store.gain")
    assert table.warnings == (
        "store.old keeps a tensor that the run did not read: if it is a cache of another size, clear it",
    )
