"""Configs of other libraries: after a growth they describe the grown model, or the report says why they cannot.

What is known of a family of configs is in `CONFIGS`, by the qualified name of its class; nothing is imported.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from growkit.discovery.inputs import CallModel
from growkit.errors import InputsError
from growkit.growth.config_search import Found, changed, leaves, lists, search, unlike
from growkit.growth.constructed import Difference, Facts, construct, facts_of, load
from growkit.growth.journal import Journal
from growkit.growth.reference import Reference
from growkit.growth.replace import moved
from growkit.growth.resolve import Resolved
from growkit.growth.verify import compare
from growkit.nn.contents import qualified_name


@dataclass(frozen=True)
class ConfigFamily:
    """Configs of one library: `model_class(config)` builds a model, and `attribute` of the model holds the config.

    `entries(config)`: as nested dicts, lists, numbers and texts, as they are saved; `read(config, entries)`: a new
    config like the given one, of these entries, as they are read back from a file; `added`: entries that classes of
    the library understand where they are given, though they do not always list them.
    """

    attribute: str
    entries: Callable[[Any], dict[str, Any]]
    read: Callable[[Any, dict[str, Any]], Any]
    added: tuple[str, ...] = ()


def _read_transformers(config: Any, entries: dict[str, Any]) -> Any:
    chosen = {"attn_implementation": "_attn_implementation", "experts_implementation": "_experts_implementation"}
    given = {name: value for name, held in chosen.items() if (value := getattr(config, held, None)) is not None}
    return type(config).from_dict(entries, **given)


CONFIGS: dict[str, ConfigFamily] = {
    "transformers.configuration_utils.PreTrainedConfig": ConfigFamily(
        attribute="config",
        entries=lambda config: config.to_dict(),
        read=_read_transformers,
        added=("head_dim",),
    ),
}
"""Families of configs by the qualified name of the class that all of them descend from."""


@dataclass(frozen=True)
class ConfigReport:
    """What a growth did to the config of a model.

    `path`: of the module that is built from it; `kind`: its class; `changes`: entries that are another now, with old
    and new value; `differences`: what its class would build otherwise, the entries being as they were; `problem`: why
    the config does not describe the module, empty if it does.
    """

    path: str
    kind: str
    changes: Mapping[str, tuple[Any, Any]]
    differences: tuple[Difference, ...] = ()
    problem: str = ""

    @property
    def describes(self) -> bool:
        """Whether `type(module)(config)` builds a module that takes the state and computes the same."""
        return not self.problem

    def __str__(self) -> str:
        whose = f"{self.kind} of {self.path or 'the model'}"
        if self.problem:
            return f"{whose} does not describe the grown model and is as it was: {self.problem}"
        changes = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in self.changes.items())
        return f"{whose} describes the grown model: {changes or 'nothing to change'}"


@dataclass(frozen=True)
class Check:
    """How to see whether a model computes what it did before the growth."""

    reference: Reference
    inputs: Any
    call: CallModel | None

    def failure(self, model: nn.Module) -> str:
        """Why it does not, empty if it does."""
        try:
            result = compare(self.reference, model, self.inputs, call=self.call)
        except InputsError as error:
            return error.given
        return "" if result.passed else f"it computes something else: relative deviation {result.max_rel:.1e}"


def entries_of(model: nn.Module) -> dict[str, dict[str, Any]]:
    """The entries of the configs that a model keeps, by the path of the module that is built from each."""
    return {path: family.entries(vars(module)[family.attribute]) for path, module, family in _holders(model)}


def bring_in_line(
    model: nn.Module,
    resolved: Resolved,
    check: Check | None,
    journal: Journal,
    before: Mapping[str, dict[str, Any]],
) -> tuple[ConfigReport, ...]:
    """Changes the configs that a grown model keeps so that they describe it, and ints that it does not compute with.

    A config is changed as a whole or not at all. With `check`, what is built from it is run and computes the same.
    `before`: the entries before the growth, some of which it may have changed already, as the model computes with them.
    """
    numbers = []
    for key in resolved.plan.fingerprint.numbers:
        path, _, index = key.partition("#")
        numbers.append((moved(path, resolved.plan.depth), int(index) if index else None))
    depth, pairs = resolved.plan.depth, tuple(dict.fromkeys(_pairs(resolved)))
    old = {moved(path, depth): entries for path, entries in before.items()}
    holders = [_Holder(model, path, module, family, check, old.get(path)) for path, module, family in _holders(model)]
    return tuple(holder.bring_in_line(numbers, pairs, [step.sources for step in depth], journal) for holder in holders)


@dataclass(frozen=True)
class _Holder:
    """A module of a grown model that was built from a config."""

    model: nn.Module
    path: str
    module: nn.Module
    family: ConfigFamily
    check: Check | None
    before: dict[str, Any] | None

    def bring_in_line(
        self,
        numbers: Collection[tuple[str, int | None]],
        pairs: Collection[tuple[int, int]],
        sources: Collection[Sequence[int]],
        journal: Journal,
    ) -> ConfigReport:
        """Changes config and ints, or nothing.

        `numbers`: the ints that the whole model computes with; `pairs`: old and new sizes of what grew; `sources`: as
        in `search`.
        """
        prefix = f"{self.path}." if self.path else ""
        inner = [(path.removeprefix(prefix), index) for path, index in numbers if path.startswith(prefix)]
        base, kind = self._entries(self.module), type(self._config(self.module)).__name__

        def build(entries: dict[str, Any]) -> Facts:
            return facts_of(self._built(entries), inner)

        reason = ""
        candidates = search(base, facts_of(self.module, inner), build, pairs, self.family.added, sources)
        for found in candidates:
            failure = self._write(found, base, {path for path, _ in inner}, journal)
            if not failure:
                return ConfigReport(self.path, kind, _changes(self.before or base, self._entries(self.module)))
            reason = reason or failure
        return ConfigReport(self.path, kind, {}, candidates[0].remaining, reason)

    def _config(self, module: nn.Module) -> Any:
        return vars(module)[self.family.attribute]

    def _entries(self, module: nn.Module) -> dict[str, Any]:
        return self.family.entries(self._config(module))

    def _built(self, entries: dict[str, Any]) -> nn.Module:
        return construct(type(self.module), lambda: self.family.read(self._config(self.module), entries))

    def _write(self, found: Found, base: dict[str, Any], read: Collection[str], journal: Journal) -> str:
        """Writes what was found, if what is built from it computes the same; else says why not and leaves all."""
        kind = type(self.module).__name__
        if not found.complete:
            return _remains(kind, found, facts_of(self.module, ()))
        built = load(self._built(changed(base, found.changes)), self.module)
        if self.check:
            with _in_place_of(self.model, self.module, built) as root:
                failure = self.check.failure(root)
            if failure:
                return f"a {kind} built from it has the shapes of the grown model, but {failure}"
        trial = Journal()
        names = {step for name in _changes(base, self._entries(built)) for step in name.split(".")}
        self._copy(built, names, read, trial)
        if trial.writes and self.check:
            failure = self.check.failure(self.model)
            if failure:
                trial.undo()
                return f"modules read its entries as they compute, and with those of the new sizes, {failure}"
        journal.take_over(trial)
        return ""

    def _copy(self, built: nn.Module, names: Collection[str], read: Collection[str], journal: Journal) -> None:
        """Entries of configs, wherever a module keeps one, and ints that are not `read`, as in what was built."""
        others = dict(built.named_modules())
        for path, module in self.module.named_modules():
            theirs = vars(others[path]) if path in others else {}
            for name, value in list(vars(module).items()):
                other = theirs.get(name)
                if family_of(value) and type(other) is type(value):
                    _copy_entries(value, other, names, journal)
                elif _is_number(value) and _is_number(other) and _join(path, name) not in read and value != other:
                    journal.set_item(vars(module), name, other)


def family_of(config: object) -> ConfigFamily | None:
    """The family that a config belongs to, if any."""
    return next((CONFIGS[name] for kind in type(config).__mro__ if (name := qualified_name(kind)) in CONFIGS), None)


def _holders(model: nn.Module) -> Iterator[tuple[str, nn.Module, ConfigFamily]]:
    """The outermost modules that keep a config."""
    found: list[str] = []
    for path, module in model.named_modules():
        if any(path.startswith(outer) for outer in found):
            continue
        for attribute, value in vars(module).items():
            family = family_of(value)
            if family is not None and family.attribute == attribute:
                found.append(f"{path}." if path else "")
                yield path, module, family


def _pairs(resolved: Resolved) -> Iterator[tuple[int, int]]:
    plan = resolved.plan
    yield from ((step.old, step.new) for step in plan.width)
    yield from ((step.old, step.new) for step in plan.depth)
    yield from ((step.old, step.new) for step in plan.numbers)
    for edit in resolved.edits.values():
        yield from ((dim.old_size, len(dim.source)) for dim in edit.dims if dim is not None)


def _remains(kind: str, found: Found, kept: Facts) -> str:
    given = ", ".join(f"{_name(path)}={value}" for path, value in found.changes.items())
    with_it = f"with {given}, " if given else ""
    if found.error:
        return f"{with_it}{kind} cannot be built: {found.error}"
    others = unlike(found.remaining, kept)
    shown = [f"{d}" + (f", unlike {other}" if (other := others.get(d.name)) else "") for d in found.remaining[:3]]
    more = f" (and {len(found.remaining) - 3} more)" if len(found.remaining) > 3 else ""
    hint = "; the same entries size them all, so let all of them grow" if others else ""
    refused = f"; {found.refused}" if found.refused else ""
    return with_it + "; ".join(shown) + more + hint + refused


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    old, new = dict(leaves(before)), dict(leaves(after))
    was = dict(lists(before))
    longer = {path: (was[path], now) for path, now in lists(after) if path in was and len(was[path]) != len(now)}
    paths = [path for path in {**old, **new} if not any(path[: len(other)] == other for other in longer)]
    changes = {path: (old.get(path), new.get(path)) for path in paths if old.get(path) != new.get(path)} | longer
    return {_name(path): change for path, change in changes.items()}


def _name(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is tuple and all(type(entry) is int for entry in value))


def _copy_entries(config: Any, other: Any, names: Collection[str], journal: Journal) -> None:
    """The entries called `names` as in another config, also of configs inside it."""
    for name, value in list(vars(other).items()):
        mine = vars(config).get(name)
        if family_of(mine) and type(value) is type(mine):
            _copy_entries(mine, value, names, journal)
        elif name in names and mine != value:
            journal.set_item(vars(config), name, copy.deepcopy(value))


@contextmanager
def _in_place_of(model: nn.Module, module: nn.Module, other: nn.Module) -> Iterator[nn.Module]:
    """The model with `other` in the places of `module`."""
    places = [(p._modules, name) for p in model.modules() for name, child in p._modules.items() if child is module]
    try:
        for owner, name in places:
            owner[name] = other
        yield other if model is module else model
    finally:
        for owner, name in places:
            owner[name] = module
