"""How many samples a batch may have."""

from __future__ import annotations

from collections.abc import Iterator

from growkit.train.containers import children

_LOOKED_INTO = 32  # entries of one container: a batch may be a list of many samples


def may_have_samples(batch: object, count: int) -> bool:
    """Whether `count` is the size of any dim of an array, or the length of any list, inside the batch.

    Which dim is that of the samples nobody says; but where none has this size, the batch has not so many. A batch
    in which nothing has a size may have any number.
    """
    sizes = set(_sizes(batch))
    return not sizes or count in sizes


def _sizes(value: object) -> Iterator[int]:
    inner = children(value)
    if inner is None:
        shape = getattr(value, "shape", ())
        yield from shape if isinstance(shape, tuple) else ()
        return
    if isinstance(value, list | tuple):
        yield len(value)
    for _, entry in inner[:_LOOKED_INTO]:
        yield from _sizes(entry)
