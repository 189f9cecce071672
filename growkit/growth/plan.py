"""A growth as a value: what grows, to which sizes, and all that replay needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from math import prod

from torch import nn

from growkit.axes.expressions import leaves
from growkit.axes.layouts import Layout
from growkit.errors import PatternError, PlanError
from growkit.growth.fingerprint import Fingerprint, check_fingerprint, number_key
from growkit.growth.typed import read
from growkit.maps.methods.table import METHODS

FORMAT = 3


@dataclass(frozen=True)
class WidthStep:
    """One axis that grows from `old` to `new` units by a method."""

    axis: str
    old: int
    new: int
    method: str


@dataclass(frozen=True)
class NumberStep:
    """One int that a module keeps (`index` inside a tuple) and that follows the axes."""

    path: str
    index: int | None
    old: int
    new: int


@dataclass(frozen=True)
class FloatStep:
    """One float that a module keeps, such as the eps of a norm, and that takes a factor."""

    path: str
    old: float
    new: float


@dataclass(frozen=True)
class LeafStep:
    """One occurrence of a growing axis, leaf `position` of dim `dim` of a tensor, that takes more than its map.

    `factor`: all entries are multiplied by it; `silent`: new units start at zero.
    """

    tensor: str
    dim: int
    position: int
    factor: float
    silent: bool


@dataclass(frozen=True)
class Insertion:
    """One new block: a copy of block `source` of the old list, which starts as the identity.

    `position` is as in `list.insert` on the old list. `silenced`: parameters of the block, and the number at which
    each starts, mostly zero, so that its branches add nothing; `bypassed`: modules that become `nn.Identity`.
    Both are relative to the block. `labels`: those of declared layouts that name axes of the source alone, of which
    the new block has axes of its own.
    """

    position: int
    source: int
    silenced: Mapping[str, float]
    bypassed: tuple[str, ...]
    labels: tuple[str, ...] = ()

    def parameters(self, container: str, names: Iterable[str]) -> list[str]:
        """Those of `names` of which the new block has a copy."""
        prefix = block_path(container, self.source) + "."
        bypassed = tuple(f"{prefix}{path}." for path in self.bypassed)
        return [name for name in names if name.startswith(prefix) and not name.startswith(bypassed)]


@dataclass(frozen=True)
class DepthStep:
    """Blocks inserted into one container.

    `numbers`: ints around the container that count its blocks; `indices`: ints of each block, by their paths inside
    it, that are its number; `lists`: paths of lists and tuples that have one entry for each block.
    """

    container: str
    old: int
    new: int
    insertions: tuple[Insertion, ...]
    numbers: tuple[NumberStep, ...] = ()
    indices: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[int, ...]:
        """Of each block of the grown container, the number of the old one that it is or is modelled on."""
        found: list[int] = []
        for position in range(self.old + 1):
            found += [new.source for new in self.insertions if new.position == position]
            found += [position] if position < self.old else []
        return tuple(found)


def block_path(container: str, index: int) -> str:
    """Path of a block; the container may be the model itself, whose path is empty."""
    return f"{container}.{index}" if container else str(index)


@dataclass(frozen=True)
class Summary:
    """What a plan would make of a model.

    Parameters and their bytes; `exact`: each step, and what keeps the function in it; `steps`: the plan in words. FLOPs
    depend on the inputs, and what becomes of optimizer state on the optimizer: both are in the report of the growth.
    """

    parameters_before: int
    parameters_after: int
    bytes_before: int
    bytes_after: int
    exact: tuple[str, ...]
    steps: str

    def __str__(self) -> str:
        return "\n".join(
            [
                self.steps,
                f"parameters {self.parameters_before:,} -> {self.parameters_after:,}",
                f"bytes of parameters {self.bytes_before:,} -> {self.bytes_after:,}",
                f"exact: {', '.join(self.exact)}",
            ]
        )


@dataclass(frozen=True)
class Plan:
    """A growth, frozen. Width steps come first, then depth steps.

    `layouts`: text of the layout of every tensor that the width steps change; `sizes`: size before of every
    axis in them; `shifts`: parameters that are used as a number plus the parameter. Draws for new units are keyed by
    `seed`, `growth` (the number of the growth in a run) and the name and old shape of the parameter. `unread`: tensors
    that the run did not read and that have a size which grows; they grow along if their layouts were declared.
    """

    width: tuple[WidthStep, ...]
    depth: tuple[DepthStep, ...]
    numbers: tuple[NumberStep, ...]
    layouts: Mapping[str, str]
    sizes: Mapping[str, int]
    fingerprint: Fingerprint
    floats: tuple[FloatStep, ...] = ()
    leaves: tuple[LeafStep, ...] = ()
    shifts: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    growth: int = 0
    warnings: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def left_alone(self) -> tuple[str, ...]:
        """Those of `unread` that stay as they are."""
        return tuple(name for name in self.unread if name not in self.layouts)

    def to_json(self) -> str:
        """The plan as JSON text; `Plan.from_json` reads it back."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote.

        Raises:
            PlanError: no JSON, another format, missing or unknown entries, entries of another type, or entries that
                contradict each other.
        """
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise PlanError(
                f"text that is no plan: {error}", "text written by Plan.to_json", "write the plan with Plan.to_json"
            ) from error
        found = data.pop("format", None) if isinstance(data, dict) else type(data).__name__
        if found != FORMAT:
            raise PlanError(
                f"a plan of format {found!r}", f"format {FORMAT}", "read it with the growkit version that wrote it"
            )
        plan: Plan = read(cls, data, "plan")
        for contradiction in _contradictions(plan):
            raise PlanError(
                f"a plan in which {contradiction}", "text written by Plan.to_json", "write the plan with Plan.to_json"
            )
        return plan

    def summary(self, model: nn.Module) -> Summary:
        """What the plan would make of a model: a dry run that changes nothing.

        Raises:
            PlanError: the plan is for another model.
        """
        check_fingerprint(model, self.fingerprint)
        before = {name: tuple(p.shape) for name, p in model.named_parameters()}
        sizes = {**self.sizes, **{step.axis: step.new for step in self.width}}
        after = {
            name: Layout.parse(self.layouts[name]).shape(sizes) if name in self.layouts else shape
            for name, shape in before.items()
        }
        new = [
            name
            for step in self.depth
            for insertion in step.insertions
            for name in insertion.parameters(step.container, after)
        ]
        grown = [*after, *new]
        bytes_of = {name: p.element_size() for name, p in model.named_parameters()}
        return Summary(
            parameters_before=sum(prod(before[name]) for name in before),
            parameters_after=sum(prod(after[name]) for name in grown),
            bytes_before=sum(bytes_of[name] * prod(before[name]) for name in before),
            bytes_after=sum(bytes_of[name] * prod(after[name]) for name in grown),
            exact=(
                *(f"{step.axis} by {step.method}" for step in self.width),
                *(f"{step.container or 'the model'} by blocks that are the identity" for step in self.depth),
            ),
            steps=str(self),
        )

    def __str__(self) -> str:
        rows = [f"  {s.axis}: {s.old} -> {s.new} ({s.method})" for s in self.width]
        rows += [
            f"  {s.container}: {s.old} -> {s.new} blocks, identity at "
            + ", ".join(f"{i.position} (like block {i.source})" for i in s.insertions)
            for s in self.depth
        ]
        rows += [f"  {f.path}: {f.old:g} -> {f.new:g}" for f in self.floats]
        rows += [f"  warning: {warning}" for warning in self.warnings]
        return "\n".join(["plan:", *rows])


def _contradictions(plan: Plan) -> Iterator[str]:
    """What no plan of `make_plan` says, in words."""
    for name, text in plan.layouts.items():
        try:
            layout = Layout.parse(text)
        except PatternError as error:
            yield f"the layout of {name!r} cannot be read: {error.given}"
            continue
        if not plan.sizes.keys() >= set(layout.axes()):
            yield f"the layout of {name!r} has axes without a size"
        elif layout.shape(plan.sizes) != plan.fingerprint.tensors.get(name):
            yield f"the layout of {name!r} does not give its shape"
    for step in plan.width:
        if (
            step.method not in METHODS
            or step.axis not in plan.sizes
            or not 0 < plan.sizes[step.axis] == step.old < step.new
        ):
            yield f"the step {step} is none of this model"
    for number in plan.numbers:
        if plan.fingerprint.numbers.get(number_key(number.path, number.index)) != number.old:
            yield f"the number {number.path!r} is none of this model"
    for float_step in plan.floats:
        if plan.fingerprint.floats.get(float_step.path) != float_step.old:
            yield f"the float {float_step.path!r} is none of this model"
    for leaf in plan.leaves:
        dims = Layout.parse(plan.layouts[leaf.tensor]).dims if leaf.tensor in plan.layouts else ()
        if not (0 <= leaf.dim < len(dims) and 0 <= leaf.position < len(list(leaves(dims[leaf.dim])))):
            yield f"the step {leaf} is none of this model"
    known = {*plan.fingerprint.tensors, *plan.fingerprint.modules}
    for depth in plan.depth:
        if depth.new != depth.old + len(depth.insertions):
            yield f"{depth.container!r} gets {len(depth.insertions)} blocks, from {depth.old} to {depth.new}"
        for new in depth.insertions:
            parts = {f"{block_path(depth.container, new.source)}.{part}" for part in (*new.silenced, *new.bypassed)}
            if not (0 <= new.position <= depth.old and 0 <= new.source < depth.old and parts <= known):
                yield f"a new block of {depth.container!r} is like none of this model"
