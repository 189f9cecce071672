"""Recurrent layers: all steps of time say the same of the axes, so that two of them are followed.

The first starts from the state that the layer was given, the second, as all later ones, from one that the layer made.
The layer itself runs unseen, on all steps: its results get the axes of those of the two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from growkit.axes.axis import Lock
from growkit.axes.node import Dim
from growkit.discovery.call import OTHERS, Known, Nature, Notes, flat
from growkit.discovery.stacks import BY_NUMBER, PICKED
from growkit.discovery.trace import Tracer

LAYERS = frozenset({torch._VF.lstm, torch._VF.gru, torch._VF.rnn_tanh, torch._VF.rnn_relu})
"""Functions that run a recurrent layer, or several, over a sequence."""


def two_steps(tracer: Tracer, layer: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The results of a recurrent layer of which the tracer sees two steps, or all where others may say more.

    `args`: data, state, weights, whether there are biases, ..., whether the batch comes first; or of packed sequences:
    data, sizes of the batch, state, weights, ...
    """
    data, packed = args[0], isinstance(args[3], (list, tuple))
    time = 1 if not packed and args[-1] else 0
    known = tracer.known(data)
    # an axis of a parameter is picked step by step; on another device a layer is one kernel
    if tracer.axes.named(known.dims[time]) or known.nature is not Nature.ACTIVATION or not data.is_cpu:
        return layer(*args)
    with torch._C._DisableTorchDispatch():
        sizes = args[1].tolist() if packed else [1] * data.shape[time]
        ends = sizes[0], sizes[-1]  # the second step with as few sequences as the last has
        few = data.narrow(time, 0, sum(ends))
        rest = (torch.tensor(ends), *args[2:]) if packed else args[1:]
        whole = flat([layer(*args)]) if len(sizes) > 2 else []
    if not whole:
        return layer(*args)
    if not packed:
        _note_picks(tracer, known.dims[time], len(sizes))
    tracer.remember(few, _known_of(tracer, few, known, data))
    tracer.flow.stand_for(few, data)
    result = layer(few, *rest)
    for made, full in zip(flat([result]), whole, strict=True):
        known = _known_of(tracer, full, tracer.known(made), made)
        with torch._C._DisableTorchDispatch():
            tracer.remember(made.detach(), known)  # no other tensor may come to lie where it was
            made.set_(full)
        tracer.remember(made, known)
        tracer.flow.moved(made)
    return result


def _note_picks(tracer: Tracer, dim: Dim, steps: int) -> None:
    """Notes what the ops of all steps would have noted on the dim that they are taken from."""
    where = tracer.where("unbind")
    picks: Notes = [(tuple(dim), f"{PICKED}{step}") for step in range(steps)]
    tracer.noted.append(([], [(tuple(dim), Lock(BY_NUMBER, where, OTHERS)), *picks], where))


def _known_of(tracer: Tracer, tensor: Tensor, known: Known, similar: Tensor) -> Known:
    """What is known about a tensor that has other numbers of steps than one of which `known` is known."""
    sizes = zip(tensor.shape, similar.shape, known.dims, strict=True)
    return Known([dim if size == same else [tracer.axes.node(size)] for size, same, dim in sizes], known.nature)
