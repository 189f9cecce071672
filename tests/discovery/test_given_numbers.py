"""Numbers made of sizes that ops are given."""

from __future__ import annotations

import torch

from growkit.axes.union_find import Axes
from growkit.discovery.given_numbers import GivenNumbers
from growkit.discovery.size_floats import Powers
from growkit.discovery.taint import Attribute, SizeOf

WIDTH = Attribute("width", None)


def test_an_op_that_is_given_a_number_is_noted_with_what_it_is_made_of() -> None:
    numbers, unseen = GivenNumbers(), list[Powers]()
    with numbers.expecting([(0.25, ((WIDTH, -0.5),)), (7.0, ((WIDTH, 2.0),))], unseen):
        numbers.op(3, {"self": torch.ones(2), "other": 0.25, "alpha": 1}, "here", lambda _: [])
    numbers.op(4, {"self": torch.ones(2), "other": 0.25}, "outside", lambda _: [])
    assert numbers.found == {(3, "other"): (((WIDTH, -0.5),), "here")}
    assert unseen == [((WIDTH, 2.0),)]


def test_numbers_of_queries_are_of_the_last_dim_of_what_is_multiplied_first() -> None:
    """Keys, which lie the other way round, are multiplied second."""
    axes = Axes()
    time, dim = [axes.node(4)], [axes.node(4)]
    queries, keys = torch.ones(4, 4), torch.ones(4, 4)
    numbers, unseen = GivenNumbers(), list[Powers]()
    with numbers.expecting([(0.5, ((None, -0.5),)), (9.0, ((None, -1.0),))], unseen):
        for number, operand in enumerate((queries, keys)):
            dims = [time, dim] if operand is queries else [dim, time]
            numbers.op(number, {"self": operand, "other": 0.5}, "here", lambda _, dims=dims: dims)
    assert [powers for powers, _ in numbers.found.values()] == [((SizeOf(tuple(dim)), -0.5),)] * 2
    assert unseen == []
