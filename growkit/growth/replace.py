"""Writes of a growth into modules: tensors, numbers, blocks. Every write goes through the journal."""

from __future__ import annotations

import copy
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.layouts import Layout
from growkit.growth.edits import Edit
from growkit.growth.fingerprint import read_number
from growkit.growth.journal import Journal
from growkit.growth.plan import DepthStep, FloatStep, NumberStep, block_path
from growkit.growth.resolve import container_of
from growkit.nn.contents import tensors_of
from growkit.nn.places import holders_of, read, slot_of


def replace_tensors(
    module: nn.Module, edits: Mapping[str, Edit], journal: Journal
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Puts the grown tensors in place, one after the other, and yields (name, old, new) for each.

    Each is written to every module that holds the old one, so ties stay ties; also where a module lists it once more,
    as recurrent layers do. New parameters keep `requires_grad` and the attributes of the old; a pending gradient is
    grown along.
    """
    places: dict[int, list[tuple[dict[str, Any], str]]] = defaultdict(list)
    elements: dict[int, list[tuple[list[Any], int]]] = defaultdict(list)
    for owner in module.modules():
        for store in (owner._parameters, owner._buffers):
            for attribute, tensor in store.items():
                if tensor is not None:
                    places[id(tensor)].append((store, attribute))
        for listed in vars(owner).values():
            for index, tensor in enumerate(listed if isinstance(listed, list) else ()):
                if isinstance(tensor, Tensor):
                    elements[id(tensor)].append((listed, index))
    tensors = tensors_of(module)
    for name, edit in edits.items():
        old = tensors.pop(name)
        new = edit.value(old)
        if isinstance(old, nn.Parameter):
            new = nn.Parameter(new, old.requires_grad)
            vars(new).update(vars(old))
            if old.grad is not None:
                new.grad = edit.gradient(old.grad)
        for store, attribute in places[id(old)]:
            journal.set_item(store, attribute, new)
        for listed, index in elements[id(old)]:
            journal.set_element(listed, index, new)
        yield name, old, new


def replace_numbers(module: nn.Module, steps: Iterable[NumberStep | FloatStep], journal: Journal) -> None:
    """Brings the numbers that modules keep in line with what has grown."""
    for step in steps:
        index = step.index if isinstance(step, NumberStep) else None
        place = step.path if index is None else f"{step.path}[{index}]"
        _write(module, place, step.new, journal)


def _write(root: nn.Module, path: str, value: float, journal: Journal) -> None:
    holder, step, written = slot_of(root, path, value)
    journal.put(holder, step, written)


def insert_blocks(module: nn.Module, step: DepthStep, journal: Journal) -> list[tuple[int, int]]:
    """Inserts the new blocks of one step; gives (new index, new index of its source) for each.

    A new block is a deep copy of its source, in eval or training mode as it; parameters that write to the
    stream are zero. Ints that count or number the blocks follow.
    """
    container = container_of(module, step.container)
    old = list(container._modules.values())
    shared = _kept_outside(module, container)
    blocks: list[nn.Module | None] = []
    moved: dict[int, int] = {}
    created: list[tuple[int, int]] = []
    for position in range(len(old) + 1):
        for insertion in step.insertions:
            if insertion.position == position:
                source = old[insertion.source]
                assert source is not None
                created.append((len(blocks), insertion.source))
                blocks.append(identity_block(source, insertion.silenced, insertion.bypassed, shared))
        if position < len(old):
            moved[position] = len(blocks)
            blocks.append(old[position])
    journal.replace_items(container._modules, [(str(i), block) for i, block in enumerate(blocks)])
    replace_numbers(module, step.numbers, journal)
    _extend_lists(module, step, journal)
    for number, block in enumerate(container):
        for path in step.indices:
            if read_number(block, path, None) not in (None, number):
                _write(block, path, number, journal)
    return [(new, moved[source]) for new, source in created]


def _extend_lists(module: nn.Module, step: DepthStep, journal: Journal) -> None:
    """Lists with an entry for each block have that of its source for a new one; one list at two paths, once."""
    for path in step.lists:
        entries = read(module, path)
        if len(entries) == step.old:
            new = [copy.deepcopy(entries[source]) for source in step.sources]
            if isinstance(entries, list):
                journal.set_elements(entries, new)
            else:
                holder, place, written = slot_of(module, path, tuple(new))
                journal.put(holder, place, written)


def _kept_outside(module: nn.Module, container: nn.Module) -> list[Any]:
    """The plain objects that modules outside of the blocks of a container keep: the model has them once."""
    inside = {id(m) for m in container.modules()}
    values = [value for m in module.modules() if id(m) not in inside for value in vars(m).values()]
    kept = {id(holder) for _, holder in holders_of(module) if not isinstance(holder, dict | list | set | deque)}
    return [value for value in values if id(value) in kept]


@torch.no_grad()
def identity_block(
    source: nn.Module, silenced: Mapping[str, float], bypassed: tuple[str, ...], shared: Iterable[Any] = ()
) -> nn.Module:
    """A deep copy of a block that returns its input: `silenced` parameters are so many, `bypassed` modules `Identity`.

    What is `shared`, such as the config of the model, the copy keeps as it is.
    """
    block = copy.deepcopy(source, {id(kept): kept for kept in shared})
    for name, value in silenced.items():
        block.get_parameter(name).fill_(value)
    for path in bypassed:
        parent, _, name = path.rpartition(".")
        old = block.get_submodule(path)
        setattr(block.get_submodule(parent), name, nn.Identity().train(old.training))
    for parameter in block.parameters():
        parameter.grad = None
    return block


def moved(name: str, steps: tuple[DepthStep, ...]) -> str:
    """The name of a tensor or module after the steps."""
    for step in steps:
        name = renames([name], step).get(name, name)
    return name


def moved_layouts(layouts: Mapping[str, str], steps: tuple[DepthStep, ...]) -> dict[str, str]:
    """Declared layouts after the steps: under the names of then, with entries for the tensors of new blocks.

    A new block has the entries of its source; a label that names an axis of the source alone gets a name of its own.
    """
    for step in steps:
        renamed = renames(list(layouts), step)
        after = {renamed.get(name, name): text for name, text in layouts.items()}
        taken = {axis for text in layouts.values() for axis in Layout.parse(text).axes()}
        for number, insertion in enumerate(step.insertions):
            source, index = block_path(step.container, insertion.source), insertion.position + number
            labels = {label: _unused(f"{label}_{index}", taken) for label in insertion.labels}
            taken |= set(labels.values())
            for name in insertion.parameters(step.container, layouts):
                new = block_path(step.container, index) + name.removeprefix(source)
                after[new] = str(Layout.parse(layouts[name]).rename(labels))
        layouts = after
    return dict(layouts)


def _unused(label: str, taken: Collection[str]) -> str:
    while label in taken:
        label += "_"
    return label


def renames(model_names: list[str], step: DepthStep) -> dict[str, str]:
    """New name of each tensor or module of the container that moved."""
    prefix = step.container + "." if step.container else ""
    found = {}
    for name in model_names:
        if name.startswith(prefix):
            index, dot, rest = name.removeprefix(prefix).partition(".")
            shift = sum(i.position <= int(index) for i in step.insertions) if index.isdigit() else 0
            if shift:
                found[name] = f"{prefix}{int(index) + shift}{dot}{rest}"
    return found
