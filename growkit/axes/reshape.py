"""Row-major reshape of dims: exact refinement, no guessing."""

from __future__ import annotations

from collections.abc import Sequence

from growkit.axes.axis import Lock
from growkit.axes.node import Dim, Irreconcilable
from growkit.axes.union_find import Axes


def reshape(axes: Axes, dims: Sequence[Dim], old: Sequence[int], new: Sequence[int], where: str) -> list[Dim]:
    """Dims of a tensor of shape `new` with the units of `dims`, whose shape is `old`, in the same order.

    Dims that the structure of an axis does not allow are new axes, and the old ones are locked.
    """
    result: list[Dim] = []
    for ours, theirs in _groups(old, new):
        factors = [node for i in ours for node in dims[i] if node.size != 1]
        if len(ours) == len(theirs) == 1 and old[ours[0]] == new[theirs[0]]:
            result.append(list(dims[ours[0]]))
            continue
        try:
            if 0 in old:
                raise Irreconcilable("it has no entries; pass inputs of which each part of the model gets some")
            made = []
            rest = factors
            for j in theirs:
                block, rest = axes.split_dim(rest, new[j])
                made.append(block)
        except Irreconcilable as conflict:
            axes.lock(
                factors,
                Lock(f"a reshape that cannot be followed: {conflict}", where, "declare the layouts of these tensors"),
                declarable=True,
            )
            made = [[axes.node(new[j])] if new[j] != 1 else [] for j in theirs]
        result += made
    return result


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of old and new dims that hold equally many entries."""
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        ours, theirs, p, q = [], [], 1, 1
        if i < len(old):
            ours, p, i = [i], old[i], i + 1
        if j < len(new):
            theirs, q, j = [j], new[j], j + 1
        while p != q:
            if (p < q or j == len(new)) and i < len(old):
                ours.append(i)
                p, i = p * old[i], i + 1
            elif j < len(new):
                theirs.append(j)
                q, j = q * new[j], j + 1
            else:
                break
        groups.append((ours, theirs))
    return groups
