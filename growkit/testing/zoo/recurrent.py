"""Recurrent networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from growkit.testing.zoo.entry import Entry, Size

Built = tuple[nn.Module, Any]


class Tagger(nn.Module):
    """A projection, a recurrent layer, a classifier of every step."""

    def __init__(self, layer: nn.RNNBase, features: int, classes: int):
        super().__init__()
        self.enter = nn.Linear(features, layer.input_size)
        self.layer = layer
        directions = 2 if layer.bidirectional else 1
        self.leave = nn.Linear(directions * (layer.proj_size or layer.hidden_size), classes)

    def forward(self, x: Tensor, state: Any = None) -> Tensor:
        """`'batch time features' -> 'batch time classes'`"""
        x = self.enter(x)
        if not self.layer.batch_first:
            x = x.transpose(0, 1)
        x, _ = self.layer(x, state)
        return self.leave(x if self.layer.batch_first else x.transpose(0, 1))


class LastStates(nn.Module):
    """A classifier of the last state of each direction, of sequences of unequal lengths."""

    def __init__(self, layer: nn.RNNBase, features: int, classes: int):
        super().__init__()
        self.layer = layer
        self.enter = nn.Embedding(features, layer.input_size)
        self.leave = nn.Linear(2 * layer.hidden_size, classes)
        self.every = nn.Linear(2 * layer.hidden_size, classes)

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """`'batch time', 'batch' -> 'batch classes', 'batch time classes'`"""
        packed = pack_padded_sequence(self.enter(ids), lengths, batch_first=True)
        steps, (hidden, _) = self.layer(packed)
        padded, _ = pad_packed_sequence(steps, batch_first=True)
        return self.leave(torch.cat([hidden[0], hidden[1]], -1)), self.every(padded)


class Cells(nn.Module):
    """Cells that the model runs step by step, with states of its own making."""

    def __init__(self, size: Size):
        super().__init__()
        self.first = nn.LSTMCell(size(3), size(5))
        self.second = nn.GRUCell(size(5), size(7))
        self.leave = nn.Linear(size(7), size(4))

    def forward(self, x: Tensor) -> Tensor:
        """`'batch time features' -> 'batch classes'`"""
        first, second = None, None
        for t in range(x.shape[1]):
            first = self.first(x[:, t], first)
            second = self.second(first[0], second)
        return self.leave(second)


def _sequences(size: Size) -> Tensor:
    return torch.randn(size(2), size(4), size(3))


def lstm(size: Size) -> Built:
    """One LSTM layer, time first."""
    return Tagger(nn.LSTM(size(6), size(5)), size(3), size(7)), _sequences(size)


def deep_lstm(size: Size) -> Built:
    """Two bidirectional LSTM layers, batch first."""
    layer = nn.LSTM(size(6), size(5), num_layers=2, bidirectional=True, batch_first=True)
    return Tagger(layer, size(3), size(7)), _sequences(size)


def projected_lstm(size: Size) -> Built:
    """LSTM layers whose states are projected."""
    layer = nn.LSTM(size(6), 9, num_layers=2, proj_size=size(3), batch_first=True)  # torch wants proj < hidden
    return Tagger(layer, size(3), size(7)), _sequences(size)


def gru(size: Size) -> Built:
    """Two GRU layers without biases."""
    layer = nn.GRU(size(6), size(5), num_layers=2, bias=False, batch_first=True)
    return Tagger(layer, size(3), size(7)), _sequences(size)


def bidirectional_gru(size: Size) -> Built:
    """One bidirectional GRU layer."""
    layer = nn.GRU(size(6), size(5), bidirectional=True, batch_first=True)
    return Tagger(layer, size(3), size(7)), _sequences(size)


def simple_rnn(size: Size) -> Built:
    """Two plain recurrent layers with ReLU."""
    layer = nn.RNN(size(6), size(5), num_layers=2, nonlinearity="relu", batch_first=True)
    return Tagger(layer, size(3), size(7)), _sequences(size)


def given_state(size: Size) -> Built:
    """A GRU that is given its first state: the state is an input."""
    layer = nn.GRU(size(6), size(5), batch_first=True)
    return Tagger(layer, size(3), size(7)), (_sequences(size), torch.randn(1, size(2), size(5)))


def packed(size: Size) -> Built:
    """A bidirectional LSTM over packed sequences."""
    layer = nn.LSTM(size(6), size(5), bidirectional=True, batch_first=True)
    lengths = torch.tensor([4, 3, 2, 2] if size(2) == 4 else [4, 2])
    return LastStates(layer, size(9), size(7)), (torch.randint(0, 4, (size(2), 4)), lengths)


def cells(size: Size) -> Built:
    """LSTM and GRU cells."""
    return Cells(size), _sequences(size)


ENTRIES = (
    Entry("LSTM", lstm),
    Entry("deep bidirectional LSTM", deep_lstm),
    Entry("projected LSTM", projected_lstm),
    Entry("deep GRU", gru),
    Entry("bidirectional GRU", bidirectional_gru),
    Entry("plain recurrent layers", simple_rnn),
    Entry("GRU with a given state", given_state),
    Entry("packed LSTM", packed),
    Entry("recurrent cells", cells),
)
