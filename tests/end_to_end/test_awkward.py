"""Constructs that are awkward to follow: each axis is found and grown exactly, or refused for a true reason."""

from __future__ import annotations

import pytest

from growkit.testing import randomise
from growkit.testing.sweep import Sweep
from tests.end_to_end.awkward.construct import EQUAL, ODD, Construct, Sizes
from tests.end_to_end.awkward.control import CONTROL
from tests.end_to_end.awkward.heads import HEADS
from tests.end_to_end.awkward.images import IMAGES
from tests.end_to_end.awkward.kept import KEPT
from tests.end_to_end.awkward.mixing import MIXING
from tests.end_to_end.awkward.numbers import NUMBERS
from tests.end_to_end.awkward.recurrent import RECURRENT
from tests.end_to_end.awkward.sharing import SHARING

FAMILIES = {
    "sharing": SHARING,
    "numbers": NUMBERS,
    "heads": HEADS,
    "mixing": MIXING,
    "kept": KEPT,
    "images": IMAGES,
    "control": CONTROL,
    "recurrent": RECURRENT,
}
CONSTRUCTS = {f"{family}: {name}": entry for family, found in FAMILIES.items() for name, entry in found.items()}


def _sweep(construct: Construct, sizes: Sizes) -> Sweep:
    model, inputs = construct.make(sizes)
    return Sweep(randomise(model).eval(), inputs)


def _reasons(sweep: Sweep, name: str) -> str:
    """Why an axis does not grow: what locks it, and what its growths were refused with."""
    (axis,) = sweep.table[name]
    return "\n".join([lock.reason for lock in axis.locks] + [a.reason for a in sweep.attempts if axis.name in a.widen])


def _check(sweep: Sweep, construct: Construct) -> None:
    """Plans are made from the table and applied without inputs: discovery refuses, not verification."""
    assert sweep.of("wrong") == sweep.of("caught") == []
    assert {sweep.table[name][0].name for name in construct.grows} <= sweep.grown
    for name, reason in construct.refused.items():
        assert sweep.table[name][0].name not in sweep.grown
        assert reason in _reasons(sweep, name)


def test_there_are_enough() -> None:
    assert len(CONSTRUCTS) >= 40
    assert all(construct.grows or construct.refused for construct in CONSTRUCTS.values())


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_axes_grow_or_are_refused(name: str) -> None:
    """Each axis by the method that growkit chooses, and all together with verification."""
    sweep = _sweep(CONSTRUCTS[name], ODD)
    for axis in sweep.table:
        sweep.grow({axis.name: 2 * axis.size})
    sweep.together({}, 2.0)
    _check(sweep, CONSTRUCTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [ODD, EQUAL], ids=["odd", "equal"])
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_by_every_method(name: str, sizes: Sizes) -> None:
    """To a multiple of the size and to none, at sizes that differ and at sizes that do not."""
    sweep = _sweep(CONSTRUCTS[name], sizes)
    sweep.every_axis()
    sweep.together({}, 1.5)
    _check(sweep, CONSTRUCTS[name])
