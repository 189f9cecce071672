"""Tests of recurrent layers: two steps say of the axes what all steps say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from growkit.axes.table import AxisTable
from growkit.discovery import sizes
from growkit.discovery.discover import discover
from growkit.discovery.inputs import tensors_in
from growkit.discovery.trace import Tracer
from tests.discovery.models import Small, X, weight


def tables(monkeypatch: pytest.MonkeyPatch, model: nn.Module, inputs: Any) -> tuple[AxisTable, AxisTable]:
    """What two steps say, and all steps."""
    two = discover(model, inputs)
    monkeypatch.setattr(sizes, "LAYERS", frozenset())
    return two, discover(model, inputs)


def layer_of(kind: type[nn.RNNBase], **settings: Any) -> nn.RNNBase:
    """A layer of 3 units, batch first, unless told otherwise."""
    torch.manual_seed(0)
    return kind(**{"input_size": 4, "hidden_size": 3, "batch_first": True, **settings})


def around(layer: nn.RNNBase, run: Callable[..., Any] | None = None, **parts: Any) -> Small:
    """A layer between two linear ones."""
    features = (2 if layer.bidirectional else 1) * (layer.proj_size or layer.hidden_size)

    def plain(m: Any, x: Tensor) -> Any:
        return m.leave(m.net(m.enter(x))[0])

    return Small(
        run or plain, enter=nn.Linear(5, layer.input_size), net=layer, leave=nn.Linear(features, 6), **parts
    )  # fmt: skip


SETTINGS: dict[str, dict[str, Any]] = {
    "one": {},
    "time first": {"batch_first": False},
    "no biases": {"bias": False},
    "both directions": {"bidirectional": True},
    "deep": {"num_layers": 2, "dropout": 0.5},
    "deep, both directions, time first": {"num_layers": 2, "bidirectional": True, "batch_first": False},
}
KINDS: dict[str, tuple[type[nn.RNNBase], dict[str, Any]]] = {
    "LSTM": (nn.LSTM, {}),
    "projected LSTM": (nn.LSTM, {"hidden_size": 5, "proj_size": 3}),
    "GRU": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}


@pytest.mark.parametrize("steps", [1, 3, 7])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_steps_say_what_all_steps_say(
    kind: str, settings: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, own = KINDS[kind]
    model = around(layer_of(layer, **own, **SETTINGS[settings]))
    two, every = tables(monkeypatch, model, X[:, :steps])
    assert two == every
    assert any(axis.admits for axis in two)


@pytest.mark.parametrize("lengths", [(7, 3), (7, 7), (2, 1)])
@pytest.mark.parametrize("settings", [name for name in SETTINGS if "time first" not in name])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(kind: str, settings: str, lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(m: Any, x: Tensor) -> Any:
        packed = pack_padded_sequence(m.enter(x), torch.tensor(lengths), batch_first=True)
        found, state = m.net(packed)
        return m.leave(pad_packed_sequence(found, batch_first=True)[0]), state

    layer, own = KINDS[kind]
    model = around(layer_of(layer, **own, **SETTINGS[settings]), run)
    two, every = tables(monkeypatch, model, X)
    assert two == every


class Dropped(nn.Module):
    """An LSTM that drops weights of its recurrence: it calls torch's function itself."""

    def __init__(self) -> None:
        super().__init__()
        inner = layer_of(nn.LSTM)
        self.w, self.u, self.b, self.c = inner.weight_ih_l0, inner.weight_hh_l0, inner.bias_ih_l0, inner.bias_hh_l0

    def forward(self, x: Tensor) -> Tensor:
        start = x.new_zeros(1, x.shape[0], self.u.shape[1])
        weights = [self.w, nn.functional.dropout(self.u, 0.5, self.training), self.b, self.c]
        return torch._VF.lstm(x, (start, start), weights, True, 1, 0.0, False, False, True)[0]


class Residual(nn.Module):
    """A block of a norm, a recurrent layer and a sum, of which a step may be put in the place of that of the layer."""

    def __init__(self, kind: type[nn.RNNBase], writes: bool = False):
        super().__init__()
        self.norm, self.net, self.writes = nn.LayerNorm(4), layer_of(kind, hidden_size=4), writes

    def forward(self, x: Tensor) -> Tensor:
        y = self.net(self.norm(x))[0]
        if self.writes:
            y[:, 3] = x[:, 3]
        return x + y


class Tied(nn.Module):
    """An embedding that reads what a layer and a norm make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.net, self.norm = nn.Embedding(9, 4), layer_of(nn.LSTM, hidden_size=4), nn.LayerNorm(4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.norm(self.net(self.table(ids))[0]) @ self.table.weight.T


def _attends(m: Any, x: Tensor) -> Tensor:
    y = m.net(m.enter(x))[0]
    return m.leave((y @ y.mT / y.shape[-1] ** 0.5).softmax(-1) @ y)


def _attends_packed(m: Any, x: Tensor) -> Tensor:
    y = m.net(pack_padded_sequence(m.enter(x), torch.tensor([7, 4]), batch_first=True))[1][0]
    return m.leave((y @ y.T).softmax(-1) @ y)


def _packed_places(m: Any, x: Tensor) -> Tensor:
    data = m.enter(x).flatten(0, 1)[:10] + m.places
    return m.leave(m.net(PackedSequence(data, torch.tensor([2, 2, 2, 1, 1, 1, 1])))[0].data)


def _packed(m: Any, x: Tensor) -> PackedSequence:
    return pack_padded_sequence(m.enter(x[:1].repeat(3, 1, 1)), torch.tensor([7, 5, 2]), batch_first=True)


def _packed_states(m: Any, x: Tensor) -> Tensor:
    return m.leave(m.net(_packed(m, x))[1] + m.each)


def _packed_from(m: Any, x: Tensor) -> Tensor:
    return m.leave(m.net(_packed(m, x), m.start)[0].data)


def _late(x: Tensor) -> Tensor:
    steps = torch.zeros(x.shape[0], 7, 4, dtype=x.dtype)
    steps[:, 5] = torch.arange(4)
    return steps


def _residual(kind: type[nn.RNNBase], **settings: bool) -> nn.Module:
    return Small(
        lambda m, x: m.leave(m.blocks(m.enter(x))),
        enter=nn.Linear(5, 4),
        blocks=nn.Sequential(Residual(kind, **settings), Residual(kind, **settings)),
        leave=nn.Linear(4, 6),
    )


def _unbatched(m: Any, x: Tensor) -> Tensor:
    y, (h, c) = m.net(m.enter(x[0]))
    return m.leave(y + h + c)


def _writes(m: Any, x: Tensor) -> Tensor:
    y = m.net(m.enter(x))[0]
    y[:, 2] = m.token
    y[:, :1] *= 2
    return m.leave(y.mul_(m.gain))


def _twice(m: Any, x: Tensor) -> Tensor:
    y, state = m.net(m.enter(x))
    return m.leave(m.net(y, state)[0])


def _square(kind: type[nn.RNNBase], run: Callable[..., Any] | None = None, **parts: Any) -> Small:
    return around(layer_of(kind, hidden_size=4), run, **parts)


def _shared() -> Small:
    model = _square(
        nn.GRU, lambda m, x: m.leave(m.other(m.net(m.enter(x))[0])[0]), other=layer_of(nn.GRU, hidden_size=4)
    )
    model.other.weight_hh_l0 = model.net.weight_hh_l0
    return model


def _at(m: Any, y: Tensor) -> Tensor:
    return y + m.places


CASES: dict[str, Callable[[], nn.Module]] = {
    "weights of the caller": lambda: Small(
        lambda m, x: m.leave(m.net(m.enter(x))), enter=nn.Linear(5, 4), net=Dropped(), leave=nn.Linear(3, 6)
    ),
    "normed weights": lambda: around(weight_norm(layer_of(nn.LSTM), "weight_hh_l0")),
    "one matrix in two layers": _shared,
    "one layer twice, with its state": lambda: _square(nn.LSTM, _twice),
    "unbatched, all results": lambda: around(layer_of(nn.LSTM), _unbatched),
    "last states": lambda: around(layer_of(nn.GRU), lambda m, x: m.leave(m.net(m.enter(x))[1][-1])),
    "results": lambda: around(layer_of(nn.LSTM), lambda m, x: m.net(m.enter(x))),
    "learned state": lambda: around(
        layer_of(nn.GRU), lambda m, x: m.leave(m.net(m.enter(x), m.start.repeat(1, 2, 1))[0]), start=weight(1, 1, 3)
    ),
    "state of a buffer": lambda: around(
        layer_of(nn.GRU),
        lambda m, x: m.leave(m.net(m.enter(x), m.start.repeat(1, 2, 1))[0]),
        start=weight(1, 1, 3).detach(),
    ),
    "state of a table": lambda: around(
        layer_of(nn.GRU), lambda m, x: m.leave(m.net(m.enter(x), torch.arange(6.0).double().view(1, 2, 3))[0])
    ),
    "places before": lambda: _square(nn.LSTM, lambda m, x: m.leave(m.net(_at(m, m.enter(x)))[0]), places=weight(7, 4)),
    "places behind": lambda: _square(nn.LSTM, lambda m, x: m.leave(_at(m, m.net(m.enter(x))[0])), places=weight(7, 4)),
    "places of both": lambda: _square(
        nn.LSTM, lambda m, x: m.leave(_at(m, (y := m.enter(x)) + m.net(y)[0])), places=weight(7, 4)
    ),
    "written into": lambda: around(layer_of(nn.GRU), _writes, token=weight(3), gain=weight(3)),
    "written into, time first": lambda: around(
        layer_of(nn.LSTM, batch_first=False), _writes, token=weight(3), gain=weight(3)
    ),
    "attention": lambda: around(layer_of(nn.GRU), _attends),
    "attention of rectified units": lambda: around(layer_of(nn.RNN, nonlinearity="relu"), _attends),
    "norm behind": lambda: around(
        layer_of(nn.LSTM), lambda m, x: m.leave(m.norm(m.net(m.enter(x))[0])), norm=nn.LayerNorm(3)
    ),
    "root mean square before": lambda: around(
        layer_of(nn.LSTM), lambda m, x: m.leave(m.net(m.norm(m.enter(x)))[0]), norm=nn.RMSNorm(4)
    ),
    "a parameter as data": lambda: around(
        layer_of(nn.GRU), lambda m, x: m.leave(m.net(m.given)[0] + m.enter(x)[..., :1]), given=weight(2, 7, 4)
    ),
    "a sum over time": lambda: around(layer_of(nn.GRU), lambda m, x: m.leave(m.net(m.enter(x))[0].mean(1))),
    "steps of a parameter": lambda: around(
        layer_of(nn.LSTM),
        lambda m, x: m.leave(m.net(m.steps(x[:, 0]).unflatten(-1, (3, 4)))[0]),
        steps=nn.Linear(5, 12),
    ),
    "a table that differs in late steps": lambda: around(
        layer_of(nn.GRU), lambda m, x: m.leave(m.net(_late(x))[0] + m.enter(x)[..., :1])
    ),
    "packed places": lambda: around(layer_of(nn.LSTM), _packed_places, places=weight(10, 4)),
    "a parameter for each packed state": lambda: around(layer_of(nn.GRU), _packed_states, each=weight(1, 3, 3)),
    "a packed state for each sequence": lambda: around(layer_of(nn.GRU), _packed_from, start=weight(1, 3, 3)),
    "attention of packed states": lambda: around(layer_of(nn.RNN, nonlinearity="relu"), _attends_packed),
    "residual LSTM": lambda: _residual(nn.LSTM),
    "residual GRU": lambda: _residual(nn.GRU),
    "residual plain layer": lambda: _residual(nn.RNN),
    "residual, written into": lambda: _residual(nn.GRU, writes=True),
}


@pytest.mark.parametrize("case", CASES)
def test_whatever_is_around_it(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    two, every = tables(monkeypatch, CASES[case](), X)
    assert two == every


def test_a_table_that_reads_what_the_layer_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    two, every = tables(monkeypatch, Tied(), torch.arange(7)[None])
    assert two == every


def test_no_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    two, every = tables(monkeypatch, CASES["places of both"](), X[:0])
    assert two == every


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_goes_on_with_the_true_results(kind: str) -> None:
    def run(m: Any, x: Tensor) -> Any:
        padded = m.net(m.enter(x))
        packed = m.net(pack_padded_sequence(m.enter(x), torch.tensor([7, 3]), batch_first=True))
        return m.leave(padded[0]), *padded, *packed

    layer, own = KINDS[kind]
    model = around(layer_of(layer, **own), run)
    seen = []
    discover(model, X, call=lambda m, x: seen.append(m(x)) or seen[-1])
    with torch.no_grad():
        expected = model(X)
    for found, true in zip(tensors_in(seen[0]), tensors_in(expected), strict=True):
        torch.testing.assert_close(found, true, rtol=1e-12, atol=1e-12)
        assert found.stride() == true.stride()


def test_the_number_of_ops_that_are_followed_does_not_grow_with_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    graph = Tracer.graph
    monkeypatch.setattr(Tracer, "graph", lambda tracer: counts.append(len(tracer.flow.ops)) or graph(tracer))
    for steps in (3, 7):
        discover(around(layer_of(nn.LSTM)), X[:, :steps].contiguous())
    assert counts[0] == counts[1]
