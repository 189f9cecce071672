"""Finding the axes of a model by running it once."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from growkit.axes.axis import Axis, Equality, Number
from growkit.axes.expressions import Expression, leaves, rename
from growkit.axes.reading import leaf_nodes, settle
from growkit.axes.table import AxisTable
from growkit.constraints.table import annotate
from growkit.discovery import rules as rules  # enters the rules in their table
from growkit.discovery.averages import note_averages
from growkit.discovery.bookkeeping import kept_numbers
from growkit.discovery.corrections import corrections, places_of, rename_passages, shifted_parameters
from growkit.discovery.counts import declared_counts, declared_indices, tried_counts
from growkit.discovery.declared import declare, declared_products, open_locks
from growkit.discovery.inputs import CallModel, run_model, tensors_in
from growkit.discovery.numbers import Numbers, also_of_others, attributes_in
from growkit.discovery.per_block import ListsPerBlock, indices_of
from growkit.discovery.scaling import Scaling
from growkit.discovery.sizes import SizeWatch
from growkit.discovery.summary import build_axes, layouts_by_serial, lock_doubtful
from growkit.discovery.taint import Attribute, HashableSizeInt, SizeInt, tainted
from growkit.discovery.tied import separate
from growkit.discovery.trace import Tracer
from growkit.discovery.untouched import State, unwrap
from growkit.discovery.uses import Uses
from growkit.discovery.weight_norms import length_corrections
from growkit.errors import InputsError
from growkit.nn.contents import Contents, qualified_name


@contextmanager
def _all_kept() -> Iterator[None]:
    """Inside, Python does not look for garbage in circles: what a run makes is in use until its end."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@_all_kept()
def discover(
    model: nn.Module,
    example_inputs: Any,
    layouts: Mapping[str, str] | None = None,
    call: CallModel | None = None,
) -> AxisTable:
    """The axes of a model, found in one run on example inputs; the model is as before afterwards.

    `example_inputs`: a tensor, a tuple of positional inputs, a mapping of keyword inputs, or `Inputs`; tiny is enough.
    `layouts`: for tensors that the run cannot explain, layout texts by tensor name, as in
    `{"mix.weight": "stream:produces stream_in:consumes"}`; equal labels are one axis, and name it. A glob,
    `layers.*.mix.weight`, declares every tensor that it fits.
    `call(model, inputs)`: runs the model where `forward` is not the entry.

    Not seen in one run: other branches (`table.warnings` says where the run branches on values), what happens in
    training only, and sizes that code written in C takes out of an int and uses as numbers: `1.0 / self.width` and
    `0.5 * self.width` with the float in front, `range`, `math.log`, `math.isqrt`, `x.shape.numel()`. The verification
    of a growth with inputs compares what comes out of them.

    Raises:
        InputsError: the model is no module, does not accept the inputs, or is wrapped for several devices.
        LayoutError: a declared layout is no text, does not fit, or contradicts the run.
    """
    model, layouts = unwrap(model), {} if layouts is None else layouts
    contents = Contents(model)
    state = State(contents)
    try:
        tracer, uses, values = _run(contents, state, example_inputs, call, SizeInt)
    except InputsError as error:
        if "unhashable type: 'SizeInt'" not in str(error.__cause__):
            raise
        tracer, uses, values = _run(contents, state, example_inputs, call, HashableSizeInt)
    axes = tracer.axes
    uses.equal += tracer.stacks.settle(axes, declared_products(tracer, layouts))
    settle(axes)
    tracer.derived.hand_back(axes)
    graph = tracer.graph()
    beside_tied = separate(graph, tracer.nature, tracer.held)
    labels = declare(tracer, layouts)
    numbers = Numbers(axes, uses, values)
    read = numbers.numbers()
    open_locks(axes, labels)
    vouched = {axes.root(leaf).serial for node in labels.values() for leaf in leaf_nodes(axes, node)}
    lock_doubtful(contents, tracer, vouched)

    factors = {key: numbers.factors(*found) for key, found in tracer.numbers.found.items()}
    scaling = Scaling(graph, tracer.floats, factors)
    rename_passages(axes, scaling.resolved)
    note_averages(graph)
    shifts = shifted_parameters(graph, axes)
    settle(axes)
    by_serial = layouts_by_serial(tracer, vouched)
    label_of = {axes.root(node).serial: label for label, node in labels.items()}
    places = places_of(axes, tracer.held)
    corrected, silent = corrections(scaling, places, beside_tied)
    lengths = length_corrections(graph, tracer.derived.normed, places)
    corrected |= {serial: corrected.get(serial, ()) + found for serial, found in lengths.items()}
    found, names = build_axes(tracer, by_serial, label_of, corrected, silent)
    named = {tensor: layout.rename(names) for tensor, layout in by_serial.items()}
    renamed = [
        replace(n, sizes=tuple(rename(size, names) for size in n.sizes))
        for n in read
        if all(_in_table(size, names) for size in n.sizes)
    ]
    kept = list(kept_numbers(contents, named, {axis.name: axis.size for axis in found}))

    def axes_of(tensor: Tensor) -> tuple[str, ...]:
        nodes = [leaf for dim in tracer.dims(tensor) for node in dim for leaf in leaf_nodes(axes, node)]
        serials = [str(axes.root(node).serial) for node in nodes]
        return tuple(names[serial] for serial in serials if serial in names)

    all_numbers = _merged([*renamed, *kept])
    blocks = tuple(tracer.flow.blocks(contents, axes_of))
    declared = tuple(declared_counts(contents))
    sized = {number.path for number in all_numbers} | {count.path for count in declared}
    origins = [*uses.origins(), *(origin for powers, _ in tracer.numbers.found.values() for origin, _ in powers)]
    used = {a.path for origin in origins for a in attributes_in(origin)}
    lists = ListsPerBlock(contents, blocks)
    tried = tried_counts(contents, state, example_inputs, call, blocks, sized, used, tracer.entered, lists)
    table = AxisTable(
        _without_loose(found, [number for number in kept if (number.path, number.index) in numbers.loose]),
        named,
        numbers=all_numbers,
        equalities=tuple(
            Equality(tuple(rename(size, names) for size in e.sizes), e.where)
            for e in dict.fromkeys(numbers.equalities)
            if all(_in_table(size, names) for size in e.sizes)
        ),
        unreached=tuple(name for name, dims in tracer.held.items() if dims and name not in tracer.read),
        unread=tuple(name for name, p in contents.parameters.items() if p.dim() and name not in tracer.read),
        modules={path: qualified_name(type(module)) for path, module in contents.modules.items()},
        blocks=blocks,
        counts=(*declared, *tried),
        indices=tuple(dict.fromkeys([*declared_indices(contents, blocks), *indices_of(model, blocks, sized)])),
        warnings=tuple(tracer.warnings),
        shifts=shifts,
    )
    return annotate(table)


def _run(
    contents: Contents,
    state: State,
    example_inputs: Any,
    call: CallModel | None,
    kind: type[SizeInt],
) -> tuple[Tracer, Uses, dict[Attribute, int]]:
    """One run in eval mode; what was seen of tensors and of ints."""
    model = contents.model
    with state.untouched(watched=False) as originals:
        tracer = Tracer(contents, originals.keep)
        tracer.floats.own(contents.modules)
        for tensor in tensors_in(example_inputs):
            tracer.enter_input(tensor)
        watch = SizeWatch(tracer, kind)
        with tainted(model, kind, watch) as values, tracer.running(), watch:
            result = run_model(model, example_inputs, call)
            watch.lock_cuts("slice")
            tracer.note_passages(tensors_in(result), model)
        tracer.warn_of_caches()
        for tensor in tensors_in(result):
            tracer.leave_output(tensor)
    return tracer, watch.uses, values


def _without_loose(axes: Iterable[Axis], numbers: Iterable[Number]) -> tuple[Axis, ...]:
    """The axes, locked where the run takes their numbers for other sizes, such as that of all positions."""
    locks = {leaf.axis: also_of_others(n.path) for n in numbers for size in n.sizes for leaf in leaves(size)}
    return tuple(replace(a, locks=(*a.locks, locks[a.name])) if a.name in locks else a for a in axes)


def _in_table(size: Expression, names: Mapping[str, str]) -> bool:
    return all(leaf.axis in names for leaf in leaves(size))


def _merged(numbers: Iterable[Number]) -> tuple[Number, ...]:
    """One entry for each attribute."""
    found: dict[tuple[str, int | None], Number] = {}
    for number in numbers:
        key = (number.path, number.index)
        if key in found:
            sizes = tuple(dict.fromkeys(found[key].sizes + number.sizes))
            number = replace(found[key], sizes=sizes)
        found[key] = number
    return tuple(found.values())
