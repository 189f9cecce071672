"""Where blocks are inserted, and what makes them start as the identity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from growkit.axes.axis import Block, Count
from growkit.axes.table import AxisTable
from growkit.errors import DepthError
from growkit.growth.plan import DepthStep, Insertion, NumberStep, block_path

_NORM = "final_norm"
"""Name of the norm at the end of a block that `nn.Identity` may replace, as in our Conformer blocks."""


@dataclass(frozen=True)
class Insert:
    """New blocks at `at`: positions as in `list.insert` on the old list."""

    at: Sequence[int]

    def __post_init__(self) -> None:
        at: object = self.at
        if isinstance(at, str) or not isinstance(at, Sequence):
            raise DepthError(
                f"Insert(at={self.at!r})", "a list of positions, as in list.insert", "write for instance Insert(at=[1])"
            )


Deepen = Mapping[str, int | Insert]


def depth_steps(table: AxisTable, deepen: Deepen) -> tuple[DepthStep, ...]:
    """The steps that a user asked for, checked.

    Args:
        table: the axes of the model.
        deepen: container path, or its end -> new length (new blocks are spread evenly), or `Insert(at=[...])`.

    A new block is a copy of the block before it (the first, at position 0), in which the parameters that write the
    branches are zero: x + 0 (see `growkit.discovery.identity`). Source: Wu et al. 2024, LLaMA Pro (arXiv 2401.02415),
    section 3.2.

    Raises:
        DepthError: unknown container, shrinking, containers inside one another, or blocks that cannot be the identity.
    """
    steps = tuple(_step(table, container, wanted) for container, wanted in deepen.items())
    for number, one in enumerate(steps):
        for other in steps[:number]:
            outer, inner = sorted((one.container, other.container), key=len)
            if f"{inner}.".startswith(f"{outer}." if outer else ""):
                raise DepthError(
                    f"containers {other.container!r} and {one.container!r} in one growth",
                    "each container once, none inside another",
                    "grow them one after the other",
                )
    return steps


def _step(table: AxisTable, name: str, wanted: int | Insert) -> DepthStep:
    known = list(dict.fromkeys(block.container for block in table.blocks))
    named = [path for path in known if path == name] or [path for path in known if path.endswith("." + name)]
    if len(named) != 1:
        raise DepthError(
            f"container {name!r}, which {'is not known' if not named else 'fits ' + ', '.join(map(repr, named))}",
            f"the path, or the end of the path, of one list of blocks: {', '.join(map(repr, known)) or 'none here'}",
            "name one of these; blocks are found in ModuleLists and Sequentials that run",
        )
    (container,) = named
    blocks = [block for block in table.blocks if block.container == container]
    positions = _positions(container, len(blocks), wanted)
    insertions = tuple(_insertion(table, blocks, position) for position in positions)
    new = len(blocks) + len(positions)
    numbers = tuple(NumberStep(c.path, None, c.value, new) for c in _counts(table, container))
    indices = tuple(dict.fromkeys(index.attribute for index in table.indices if index.container == container))
    lists = tuple(c.path for c in table.counts if c.container == container and c.verdict == "list")
    return DepthStep(container, len(blocks), new, insertions, numbers, indices, lists)


def depth_warnings(table: AxisTable, steps: Iterable[DepthStep]) -> tuple[str, ...]:
    """What a user should know: ints that look like counts and that nothing reads."""
    containers = [step.container for step in steps]
    return tuple(
        f"{count.path} = {count.value} does not say how many blocks of {count.container!r} run; left alone"
        for count in table.counts
        if count.verdict == "unused" and count.container in containers
    )


def _counts(table: AxisTable, container: str) -> list[Count]:
    found = [count for count in table.counts if count.container == container]
    unclear = [f"{count.path} = {count.value}" for count in found if count.verdict == "unclear"]
    if unclear:
        raise DepthError(
            f"{', '.join(unclear)}, as many as there are blocks in {container!r}, and the model reads it",
            "ints that bound the loop over the blocks and do nothing else, or that are declared",
            "loop over the container itself, or declare growkit_sizes = {'num_layers': 'len(layers)'} on the class",
        )
    return [count for count in found if count.verdict == "count"]


def _positions(container: str, old: int, wanted: int | Insert) -> list[int]:
    if isinstance(wanted, Insert):
        outside = [p for p in wanted.at if isinstance(p, bool) or not isinstance(p, int) or not 0 <= p <= old]
        if outside or not wanted.at:
            raise DepthError(
                f"{container!r}: insertion at {list(wanted.at)}",
                f"at least one position from 0 to {old}, as in list.insert",
                "mend the positions",
            )
        return sorted(wanted.at)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted <= old:
        raise DepthError(
            f"{container!r}: {wanted!r} blocks where there are {old}",
            f"an int above {old}, or Insert(at=[...])",
            "ask for more blocks: growkit only grows",
        )
    more = wanted - old
    # new block number k of m comes after the fraction (k + 1) / m of the old blocks
    return [-(-(k + 1) * old // more) for k in range(more)]


def _insertion(table: AxisTable, blocks: list[Block], position: int) -> Insertion:
    source = blocks[max(position - 1, 0)]
    path = block_path(source.container, source.index)
    foreign = [name for name in source.tail if name != _NORM]
    if not source.residual or foreign:
        ends = f"ends in {', '.join(foreign)}" if foreign else "does not add to its input"
        raise DepthError(
            f"block {path!r}, which {ends}",
            f"pre-norm residual blocks, x + f(norm(x)), at most followed by a norm called {_NORM!r}",
            "such a block cannot start as the identity; grow width instead, or use pre-norm blocks",
        )
    if source.obstacle:
        raise DepthError(
            f"block {path!r}, which {source.obstacle}",
            "x + f(x) + g(x) ..., where each term ends in a layer, or in a norm with a gain, that can start at zero",
            "write such a term as a branch with a last layer, or deepen another container",
        )
    if not source.silenced:
        raise DepthError(
            f"block {path!r}, of which no parameter writes to its result",
            "blocks with a last projection on each branch",
            "deepen another container",
        )
    labels = tuple(
        axis.name
        for axis in table
        if axis.name not in map(str, axis.occurrences)
        and all(o.tensor.startswith(path + ".") for o in axis.occurrences)
    )
    return Insertion(position, source.index, source.silenced, source.tail, labels)
