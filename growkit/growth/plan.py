"""A growth as a value: what grows, to which sizes, and all that replay needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import Any

from torch import nn

from growkit.axes.layouts import Layout
from growkit.errors import PlanError
from growkit.growth.fingerprint import Fingerprint, check_fingerprint

FORMAT = 1


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
class Insertion:
    """One new block: a copy of block `source` of the old list, which starts as the identity.

    `position` is as in `list.insert` on the old list. `silenced`: parameters of the block that start at
    zero, so that its branches add nothing; `bypassed`: modules of the block that become `nn.Identity`.
    Both are relative to the block.
    """

    position: int
    source: int
    silenced: tuple[str, ...]
    bypassed: tuple[str, ...]

    def parameters(self, container: str, names: Iterable[str]) -> list[str]:
        """Those of `names` of which the new block has a copy."""
        prefix = f"{container}.{self.source}." if container else f"{self.source}."
        bypassed = tuple(f"{prefix}{path}." for path in self.bypassed)
        return [name for name in names if name.startswith(prefix) and not name.startswith(bypassed)]


@dataclass(frozen=True)
class DepthStep:
    """Blocks inserted into one container."""

    container: str
    old: int
    new: int
    insertions: tuple[Insertion, ...]


def block_path(container: str, index: int) -> str:
    """Path of a block; the container may be the model itself, whose path is empty."""
    return f"{container}.{index}" if container else str(index)


@dataclass(frozen=True)
class Summary:
    """What a plan would make of a model.

    Parameters; FLOPs per position, counted as 2 for each entry of each matrix and kernel; bytes of one parameter
    entry; and the steps in words.
    """

    parameters_before: int
    parameters_after: int
    flops_before: int
    flops_after: int
    bytes_per_entry: int
    steps: str

    def __str__(self) -> str:
        before, after = (self.bytes_per_entry * n for n in (self.parameters_before, self.parameters_after))
        return "\n".join(
            [
                self.steps,
                f"parameters {self.parameters_before:,} -> {self.parameters_after:,}",
                f"bytes of parameters {before:,} -> {after:,}",
                f"FLOPs per position {self.flops_before:,} -> {self.flops_after:,}",
                "exact: the function, and what optimizers hold of old entries; new entries have no past",
            ]
        )


@dataclass(frozen=True)
class Plan:
    """A growth, frozen. Width steps come first, then depth steps.

    `layouts`: text of the layout of every tensor that the width steps change; `sizes`: size before of every
    axis in them. Draws for new units are keyed by `seed`, `growth` (the number of the growth in a run) and
    the name and old shape of the parameter.
    """

    width: tuple[WidthStep, ...]
    depth: tuple[DepthStep, ...]
    numbers: tuple[NumberStep, ...]
    layouts: Mapping[str, str]
    sizes: Mapping[str, int]
    fingerprint: Fingerprint
    seed: int = 0
    growth: int = 0
    warnings: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The plan as JSON text; `Plan.from_json` reads it back."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote.

        Raises:
            PlanError: no JSON, another format, or missing or unknown entries.
        """
        try:
            data = json.loads(text)
            if not isinstance(data, dict) or data.get("format") != FORMAT:
                found = data.get("format") if isinstance(data, dict) else type(data).__name__
                raise PlanError(
                    f"a plan of format {found!r}", f"format {FORMAT}", "read it with the growkit version that wrote it"
                )
            del data["format"]
            known = {field.name for field in fields(cls)}
            if data.keys() != known:
                raise PlanError(
                    f"a plan with the entries {sorted(data)}",
                    f"exactly {sorted(known)}",
                    "write the plan with Plan.to_json",
                )
            return _read(data)
        except (json.JSONDecodeError, TypeError, KeyError, AttributeError) as error:
            raise PlanError(
                f"text that is no plan: {error}", "text written by Plan.to_json", "write the plan with Plan.to_json"
            ) from error

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
        blocks = [
            after[name]
            for step in self.depth
            for insertion in step.insertions
            for name in insertion.parameters(step.container, after)
        ]
        width = {p.element_size() for p in model.parameters()}
        return Summary(
            _numel(before.values()),
            _numel([*after.values(), *blocks]),
            _flops(before.values()),
            _flops([*after.values(), *blocks]),
            max(width, default=0),
            str(self),
        )

    def __str__(self) -> str:
        rows = [f"  {s.axis}: {s.old} -> {s.new} ({s.method})" for s in self.width]
        rows += [
            f"  {s.container}: {s.old} -> {s.new} blocks, identity at "
            + ", ".join(f"{i.position} (like block {i.source})" for i in s.insertions)
            for s in self.depth
        ]
        rows += [f"  warning: {warning}" for warning in self.warnings]
        return "\n".join(["plan:", *rows])


def _numel(shapes: Iterable[tuple[int, ...]]) -> int:
    return sum(prod(shape) for shape in shapes)


def _flops(shapes: Iterable[tuple[int, ...]]) -> int:
    return 2 * _numel(shape for shape in shapes if len(shape) > 1)


def _read(data: dict[str, Any]) -> Plan:
    def insertion(entry: dict[str, Any]) -> Insertion:
        return Insertion(entry["position"], entry["source"], tuple(entry["silenced"]), tuple(entry["bypassed"]))

    fingerprint = data["fingerprint"]
    return Plan(
        width=tuple(WidthStep(**entry) for entry in data["width"]),
        depth=tuple(
            DepthStep(e["container"], e["old"], e["new"], tuple(map(insertion, e["insertions"]))) for e in data["depth"]
        ),
        numbers=tuple(NumberStep(**entry) for entry in data["numbers"]),
        layouts=dict(data["layouts"]),
        sizes=dict(data["sizes"]),
        fingerprint=Fingerprint(
            {name: tuple(shape) for name, shape in fingerprint["tensors"].items()},
            dict(fingerprint["modules"]),
            dict(fingerprint["numbers"]),
        ),
        seed=data["seed"],
        growth=data["growth"],
        warnings=tuple(data["warnings"]),
    )
