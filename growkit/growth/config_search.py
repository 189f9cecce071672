"""Which entries of a config have to change so that its class builds a model of given sizes.

Nothing is known about the class: entries are changed, and what it builds is looked at.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Any

from growkit.growth.constructed import Difference, Facts, differences

Path = tuple[str | int, ...]
State = Mapping[Path, Any]
Build = Callable[[dict[str, Any]], Facts]
"""Builds from the entries of a config and says what came out; raises if the class refuses."""

BUDGET, FEW = 60, 25
"""Most models that are built in one search, and in one for layers that grew unlike others of their kind."""


@dataclass(frozen=True)
class Found:
    """Entries with which the class builds the model, but for `remaining`; `error` if it builds nothing.

    `refused`: one more entry that would explain some of it, and why the class does not allow that.
    """

    changes: State
    remaining: tuple[Difference, ...] = ()
    error: str = ""
    refused: str = ""

    @property
    def complete(self) -> bool:
        """Whether the class builds just this model."""
        return not self.remaining and not self.error


@dataclass
class _Search:
    base: dict[str, Any]
    kept: Facts
    build: Build
    pairs: Collection[tuple[int, int]]
    added: Collection[str]
    sources: Collection[Sequence[int]]
    tried: dict[frozenset[tuple[Path, str]], Found] = field(default_factory=dict)
    idle: set[Path] = field(default_factory=set)
    built: dict[frozenset[tuple[Path, str]], Facts] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def look(self, state: State) -> Found:
        """What comes out with the entries of a state."""
        key = _key(state)
        if key not in self.tried:
            try:
                facts = self.build(changed(self.base, state))
            except Exception as error:  # whatever a foreign class raises on entries that it does not allow
                text = str(error).strip()
                reason = f"{type(error).__name__}: {text.splitlines()[-1].strip() if text else 'no reason'}"
                self.tried[key] = Found(state, (), reason)
            else:
                self.built[key] = facts
                self.tried[key] = Found(state, tuple(differences(self.kept, facts)))
        return self.tried[key]

    def direct(self) -> list[tuple[Path, Any]]:
        """Entries that are an old size, with the new one, and lists that have as many entries as there were blocks."""
        return [
            *((p, new) for p, v in leaves(self.base) if type(v) is int for old, new in self.pairs if v == old),
            *(
                (path, tuple(entries[source] for source in sources))
                for path, entries in lists(self.base)
                for sources in self.sources
                if len(entries) == max(sources) + 1
            ),
        ]

    def named(self) -> State:
        """Entries that are not set, and of whose name the model has a number, the same everywhere.

        Classes compute such an entry out of others, which then explain nothing one by one.
        """
        numbers: dict[str, set[Any]] = {}
        for name, value in self.kept.items():
            if type(value) is int:
                numbers.setdefault(name.rpartition(".")[2], set()).add(value)
        return {path: min(numbers[str(path[-1])]) for path in self.unset() if len(numbers.get(str(path[-1]), ())) == 1}

    def unset(self) -> list[Path]:
        """Entries that are not set, or not there."""
        found = [path for path, value in leaves(self.base) if value is None]
        return found + [(name,) for name in self.added if name not in self.base]

    def options(self, found: Found) -> Iterator[tuple[Path, Any]]:
        """Entries that may explain what remains: an old size; one that is not set; one that others are multiples of."""
        yield from self.direct()
        entries = dict(leaves(self.base))
        sizes = dict.fromkeys(pair for difference in found.remaining for pair in difference.sizes)
        for path in self.unset():
            for kept in dict.fromkeys(kept for kept, _ in sizes):
                if type(kept) is int:
                    yield path, kept
        for path, value in entries.items():
            if type(value) not in (int, float) or not value:
                continue
            for kept, built in sizes:
                if type(kept) is float:
                    if value == built:
                        yield path, kept
                    continue
                for number in (value * kept / built, value * built / kept) if kept and built else ():
                    if type(value) is float or (number == int(number) and number >= 1):
                        yield path, type(value)(number)

    def run(self) -> list[Found]:
        """That with the fewest changes and that with the most; else the one in which least remains."""
        everything: dict[Path, Any] = {}
        for path, value in self.direct():
            everything.setdefault(path, value)
        starts: list[State] = [{}, everything]
        if named := self.named():
            starts.insert(0, named)
        best = min((self.look(state) for state in starts), key=_remaining)
        budget = FEW if unlike(best.remaining, self.kept) else BUDGET
        for state in starts:
            if not best.complete:
                best = min(best, self._descend(state, len(self.tried) + budget // 2), key=_remaining)
        if not best.complete:
            first = self.look(everything)
            best = first if first.error and not best.changes else self._least(best)
            return [replace(best, refused=self._refused(best))]
        least = self._least(best)
        most = least
        for path, value in everything.items():
            more = self.look({**most.changes, path: value}) if path not in most.changes else most
            most = more if more.complete else most
        return [least] if most is least else [least, most]

    def _descend(self, start: State, most: int) -> Found:
        """The best that is found from a state, the most promising option first, until `most` were tried."""
        waiting: list[tuple[float, int, Found, Iterator[tuple[Path, Any]]]] = []
        best = self._wait(waiting, self.look(start))
        while waiting and not best.complete and len(self.tried) < most:
            score, number, found, options = heappop(waiting)
            option = next((o for o in options if o[0] not in self.idle), None)
            if option is None:
                continue
            heappush(waiting, (score, number, found, options))
            changes = _toggled(found.changes, *option)
            if _key(changes) in self.tried:
                continue
            other = self.look(changes)
            if not found.error and not other.error and self.built[_key(changes)] == self.built[_key(found.changes)]:
                self.idle.add(option[0])
            else:
                best = min(best, self._wait(waiting, other), key=_remaining)
        return best

    def _refused(self, best: Found) -> str:
        """The first error of a state that has one more entry, one that is a number in the config, than the best has."""
        entries, most = dict(leaves(self.base)), _key(best.changes)
        for found in self.tried.values():
            more = [(path, value) for path, value in found.changes.items() if (path, repr(value)) not in most]
            if found.error and len(more) == 1 and most <= _key(found.changes) and entries.get(more[0][0]):
                return f"{'.'.join(map(str, more[0][0]))}={more[0][1]} is refused: {found.error}"
        return ""

    def _wait(self, waiting: list[Any], found: Found) -> Found:
        heappush(waiting, (_remaining(found), next(self.numbers), found, self.options(found)))
        return found

    def _least(self, found: Found) -> Found:
        """Without the changes that change nothing."""
        for path in found.changes:
            less = self.look({p: v for p, v in found.changes.items() if p != path})
            if _remaining(less) <= _remaining(found):
                self.idle.add(path)
                found = less
        return found


def search(
    base: dict[str, Any],
    kept: Facts,
    build: Build,
    pairs: Collection[tuple[int, int]],
    added: Collection[str],
    sources: Collection[Sequence[int]] = (),
) -> list[Found]:
    """Changes of the entries `base` with which `build` gives `kept`; if there are none, the one that comes nearest.

    Args:
        base: the entries of the config, nested as the config is.
        kept: what the grown model has.
        build: what the class builds from given entries.
        pairs: old and new sizes of what grew.
        added: names of entries that may be added at the top.
        sources: of each container that got new blocks, the number of the old block that each block is like.
    """
    return _Search(base, kept, build, pairs, added, sources).run()


def unlike(remaining: Collection[Difference], kept: Facts) -> Mapping[str, str]:
    """Of what differs, that of which another layer has one like what the class builds; with the name of that one.

    Its class builds both by the same entries, as a rule, so that both layers have to grow.
    """
    differing = {difference.name for difference in remaining}
    alike = {(_LAYER.sub("*", name), value): name for name, value in kept.items() if name not in differing}
    shapes = [d for d in remaining if isinstance(d.built, tuple) and isinstance(d.kept, tuple)]
    found = {d.name: alike.get((_LAYER.sub("*", d.name), d.built)) for d in shapes}
    return {name: other for name, other in found.items() if other is not None}


_LAYER = re.compile(r"(?<=\.)\d+(?=\.)")


def leaves(entries: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every number and every None in nested entries, with its place."""
    if isinstance(entries, dict):
        for name, value in entries.items():
            yield from leaves(value, (*path, name)) if isinstance(name, str) else ()
    elif isinstance(entries, list | tuple):
        for index, value in enumerate(entries):
            yield from leaves(value, (*path, index)) if value is not None else ()
    elif type(entries) in (int, float, type(None)):
        yield path, entries


def lists(entries: Any, path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """Every list or tuple in nested dicts, with its place."""
    if isinstance(entries, dict):
        for name, value in entries.items():
            yield from lists(value, (*path, name)) if isinstance(name, str) else ()
    elif isinstance(entries, list | tuple):
        yield path, list(entries)


def changed(entries: dict[str, Any], state: State) -> dict[str, Any]:
    """A copy of the entries with those of a state."""
    result = copy.deepcopy(entries)
    for path, value in sorted(state.items(), key=lambda item: len(item[0])):
        _put(result, path, copy.deepcopy(list(value)) if isinstance(value, tuple) else value)
    return result


def _put(entries: Any, path: Path, value: Any) -> Any:
    """`entries` with `value` at `path`, in place where that can be."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(entries, tuple):
        return tuple(_put(e, rest, value) if i == step else e for i, e in enumerate(entries))
    entries[step] = _put(entries.get(step) if isinstance(entries, dict) else entries[step], rest, value)
    return entries


def _toggled(state: State, path: Path, value: Any) -> State:
    others = {p: v for p, v in state.items() if p != path}
    return others if state.get(path) == value else {**others, path: value}


def _key(state: State) -> frozenset[tuple[Path, str]]:
    return frozenset((path, repr(value)) for path, value in state.items())


def _remaining(found: Found) -> float:
    return float("inf") if found.error else sum(max(1, len(d.sizes)) for d in found.remaining)
