"""Recurrent layers and loops over time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes

RECURRENT = Family()
construct = RECURRENT.construct


@construct("LSTM cells in a loop", "cell.weight_hh[1]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], m.cell.hidden_size)
        out = []
        for t in range(x.shape[1]):
            h, c = m.cell(m.enter(x[:, t]), (h, c))
            out.append(h)
        return m.leave(torch.stack(out, 1))

    return Small(
        run, enter=nn.Linear(s.x, s.a), cell=nn.LSTMCell(s.a, s.b), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("a GRU cell, unbound over time", "cell.weight_hh[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.start.expand(x.shape[0], -1)
        for step in x.unbind(1):
            h = m.cell(step, h)
        return m.leave(h)

    return Small(run, cell=nn.GRUCell(s.x, s.b), start=weight(1, s.b), leave=nn.Linear(s.b, s.o)), s.sequence()


@construct("a state that the user gives", refused={"net.weight_hh_l0[1]": "an input of the model"})
def _(s: Sizes) -> tuple[nn.Module, Any]:
    def run(m: Small, x: Tensor, state: Tensor) -> Tensor:
        return m.leave(torch.tanh(m.net(x, state)[0]))

    model = Small(run, net=nn.GRU(s.x, s.b, batch_first=True), leave=nn.Linear(s.b, s.o))
    return model, (s.sequence(), s.data(1, s.batch, s.b))


@construct("a state that is returned", "net.weight_hh_l0[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> tuple[Tensor, Tensor]:
        out, state = m.net(x)
        return m.leave(out), state

    return Small(run, net=nn.GRU(s.x, s.b, batch_first=True), leave=nn.Linear(s.b, s.o)), s.sequence()


@construct("both directions, projected", "net.weight_hr_l0[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.net(m.enter(x))[0])), enter=nn.Linear(s.x, s.a),
        net=nn.LSTM(s.a, s.b, bidirectional=True, proj_size=2, batch_first=True), leave=nn.Linear(4, s.o),
    ), s.sequence()  # fmt: skip


@construct("the last states of both directions", "leave.weight[1].0")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        state = m.net(x)[1][0]
        return m.leave(torch.cat([state[-2], state[-1]], -1))

    return Small(
        run, net=nn.LSTM(s.x, s.b, bidirectional=True, batch_first=True), leave=nn.Linear(2 * s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("packed sequences", "enter.weight[0]", "net.weight_hh_l0[1]")
def _(s: Sizes) -> tuple[nn.Module, Any]:
    def run(m: Small, x: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(m.enter(x), lengths, batch_first=True)
        return m.leave(nn.utils.rnn.pad_packed_sequence(m.net(packed)[0], batch_first=True)[0])

    model = Small(
        run, enter=nn.Linear(s.x, s.a), net=nn.LSTM(s.a, s.b, batch_first=True), leave=nn.Linear(s.b, s.o)
    )  # fmt: skip
    return model, (s.sequence(), torch.tensor([s.time] * (s.batch - 1) + [2]))


@construct("a vanilla recurrence by hand", "inner[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], m.inner.shape[0], dtype=x.dtype)
        for t in range(x.shape[1]):
            h = torch.tanh(m.enter(x[:, t]) + h @ m.inner)
        return m.leave(h)

    return Small(run, enter=nn.Linear(s.x, s.a), inner=weight(s.a, s.a), leave=nn.Linear(s.a, s.o)), s.sequence()


@construct("a recurrence of gates, cut by chunk", "leave.weight[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = c = torch.zeros(x.shape[0], m.width, dtype=x.dtype)
        for t in range(x.shape[1]):
            i, f, g, o = (m.enter(x[:, t]) + m.inner(h)).chunk(4, -1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return m.leave(h)

    return Small(
        run, enter=nn.Linear(s.x, 4 * s.a), inner=nn.Linear(s.a, 4 * s.a), leave=nn.Linear(s.a, s.o), width=s.a
    ), s.sequence()  # fmt: skip


@construct("a diagonal state space by a scan", "decay[0]", "read[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        u = m.enter(x)
        h, out = torch.zeros(x.shape[0], *m.decay.shape, dtype=x.dtype), []
        for t in range(x.shape[1]):
            h = h * torch.exp(-m.decay.exp()) + u[:, t, :, None] * m.write
            out.append((h * m.read).sum(-1))
        return m.leave(torch.stack(out, 1))

    return Small(
        run, enter=nn.Linear(s.x, s.a), decay=weight(s.a, s.n), write=weight(s.a, s.n), read=weight(s.a, s.n),
        leave=nn.Linear(s.a, s.o),
    ), s.sequence()  # fmt: skip


@construct("an exponential average by cumsum", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh((m.enter(x) * m.gain).cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None])),
        enter=nn.Linear(s.x, s.a), gain=weight(s.a), leave=nn.Linear(s.a, s.o),
    ), s.sequence()  # fmt: skip
