"""Recurrent layers: all steps of time say the same of the axes, so that two of them are followed.

The first starts from the state that the layer was given, the second, as all later ones, from one that the layer made.
The layer itself runs unseen, on all steps: its results get the axes of those of the two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from growkit.axes.node import Dim
from growkit.discovery.call import Known, Nature, flat
from growkit.discovery.stacks import PICKED
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
    with torch._C._DisableTorchDispatch():
        sizes = args[1].tolist() if packed else [1] * data.shape[time]
    # along these dims entries are picked; on another device a layer is one kernel
    picked = [known.dims[time], *(tracer.dims(state)[1] for state in flat([args[2]] if packed else ()))]
    own = known.nature is not Nature.ACTIVATION or any(map(tracer.axes.named, picked))
    if own or len(sizes) <= 2 or not data.is_cpu:
        return layer(*args)
    with torch._C._DisableTorchDispatch():
        whole = flat([layer(*args)])
        ends = sizes[0], sizes[-1]  # the second step with as few sequences as the last has
        few = data.narrow(time, 0, sum(ends))
        rest = (torch.tensor(ends), *args[2:]) if packed else args[1:]
    of_few = _known_of(tracer, few, known, data)
    tracer.remember(few, of_few)
    tracer.flow.stand_for(few, data)
    before = len(tracer.noted)
    result = layer(few, *rest)
    _say_of_all(tracer, of_few.dims[time], known.dims[time], len(sizes), before)
    for made, full in zip(flat([result]), whole, strict=True):
        known = _known_of(tracer, full, tracer.known(made), made)
        with torch._C._DisableTorchDispatch():
            tracer.remember(made.detach(), known)  # no other tensor may come to lie where it was
            made.set_(full)
        tracer.remember(made, known)
        tracer.flow.moved(made)
    return result


def _say_of_all(tracer: Tracer, few: Dim, whole: Dim, steps: int, before: int) -> None:
    """What was noted since on the dim of two steps holds for the one of all steps; the ops pick each by its number."""
    axes = tracer.axes
    for lock, declarable in axes.shared(few[0]).locks.items():
        axes.lock(whole, lock, declarable)
    for _, notes, _ in tracer.noted[before:]:
        kinds = [kind for nodes, kind in notes if any(axes.root(node) is axes.root(few[0]) for node in nodes)]
        others = [f"{PICKED}{step}" for step in range(2, steps)] if f"{PICKED}1" in kinds else []
        notes += [(tuple(whole), kind) for kind in (*kinds, *others)]


def _known_of(tracer: Tracer, tensor: Tensor, known: Known, similar: Tensor) -> Known:
    """What is known about a tensor that has other numbers of steps than one of which `known` is known."""
    sizes = zip(tensor.shape, similar.shape, known.dims, strict=True)
    return Known([dim if size == same else [tracer.axes.node(size)] for size, same, dim in sizes], known.nature)
