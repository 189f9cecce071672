"""Tests of one op as the rules see it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from growkit.axes.expressions import Role
from growkit.axes.union_find import Axes
from growkit.discovery.call import Call, Known, Nature, Unfollowable


def _call(axes: Axes, known: dict[int, Known], **arguments: object) -> Call:
    return Call(axes, "op", dict(arguments), None, "module (op)", lambda tensor: known[id(tensor)])


def test_dims_are_counted_from_the_front() -> None:
    assert _call(Axes(), {}, dim=-1).dim("dim", torch.zeros(2, 3, 4)) == 2
    assert _call(Axes(), {}, dim=0).dim("dim", torch.tensor(1.0)) == 0


def test_the_largest_nature_wins() -> None:
    tensors = [torch.zeros(1) for _ in Nature]
    known = {id(tensor): Known([[]], nature) for tensor, nature in zip(tensors, Nature, strict=True)}
    call = _call(Axes(), known)
    assert call.nature(tensors) is Nature.ACTIVATION
    assert call.nature(tensors[:2]) is Nature.WEIGHT
    assert call.nature([]) is Nature.CONSTANT


def test_a_dim_of_one_unit_is_no_axis() -> None:
    call = _call(Axes(), {})
    assert call.fresh(1) == []
    assert [node.size for node in call.fresh(3)] == [3]


def test_a_slice_across_blocks_locks_and_gives_a_new_axis() -> None:
    axes = Axes()
    weight = axes.node(6, named=True)
    axes.split(weight, 2)
    (piece,) = _call(axes, {}).cut([weight], 0, 4)
    (lock,) = axes.shared(weight).locks
    assert lock.reason.startswith("a slice that cannot be followed")
    assert lock.where == "module (op)"
    assert (piece.size, axes.named([piece])) == (4, False)


def test_groups_that_do_not_divide_cannot_be_followed() -> None:
    axes = Axes()
    with pytest.raises(Unfollowable, match="groups that cannot be followed"):
        _call(axes, {}).split([axes.node(6)], 4)


@pytest.mark.parametrize("nature", list(Nature))
def test_attaching_gives_a_role_to_what_is_no_activation(nature: Nature) -> None:
    axes = Axes()
    mine, theirs = axes.node(4), axes.node(4)
    tensor: Tensor = torch.zeros(4)
    call = _call(axes, {id(tensor): Known([[mine]], nature)})
    call.attach(tensor, [[theirs]], Role.GAIN)
    call.attach(None, [[theirs]], Role.BIAS)
    assert axes.root(mine) is axes.root(theirs)
    assert list(mine.roles) == ([] if nature is Nature.ACTIVATION else [Role.GAIN])
