"""Tests of ints with an origin."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import dataclass

import pytest
from torch import nn

from growkit.discovery.taint import (
    Attribute,
    Comparison,
    Computed,
    HashableSizeInt,
    Literal,
    Origin,
    SizeInt,
    tainted,
    tracked,
)

A = Attribute("a", None)


@dataclass
class Heard:
    """What a listener heard."""

    numbers: list[Origin]
    comparisons: list[Comparison]

    def as_number(self, origin: Origin) -> None:
        self.numbers.append(origin)

    def compared(self, comparison: Comparison) -> None:
        self.comparisons.append(comparison)


def test_it_is_an_int_of_the_same_value() -> None:
    a = tracked(6, A)
    assert isinstance(a, int)
    assert (a, a + 1, 2 * a, a - 1, 13 - a, a // 4, 13 // a, -a, a % 4, a**2) == (6, 7, 12, 5, 7, 1, 2, -6, 2, 36)
    assert (a / 4, 3 / a, a * 0.5, 0.5 + a) == (1.5, 0.5, 3.0, 6.5)
    assert [*range(tracked(2, A))] == [0, 1]


def test_arithmetic_keeps_the_origin() -> None:
    a, b = tracked(6, A), tracked(2, Attribute("b", 1))
    assert (a // b).origin == Computed("//", A, Attribute("b", 1))
    assert (3 * a).origin == Computed("*", Literal(3), A)
    assert (a - 1).origin == Computed("-", A, Literal(1))


def test_copies_and_pickles_are_plain() -> None:
    for clone in (copy.deepcopy(tracked(6, A)), pickle.loads(pickle.dumps(tracked(6, A)))):
        assert type(clone) is int
        assert clone == 6


def test_caches_let_it_pass_unless_it_is_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'SizeInt'"):
        hash(tracked(6, A))
    assert {6: "six"}[tracked(6, A, HashableSizeInt)] == "six"


def test_a_size_used_as_a_number_is_noticed() -> None:
    seen: list[Origin] = []
    with tainted(nn.Module(), SizeInt, Heard(seen, [])):
        a = tracked(4, A)
        results = [math.sqrt(a), a**-0.5, a / 8, 8 / a, a * 0.5]
    assert results == [2.0, 0.5, 0.5, 2.0, 2.0]
    assert seen == [A] * 5
    float(a)
    assert len(seen) == 5


def test_ints_and_tuples_of_modules_are_tracked() -> None:
    module = nn.Module()
    module.width, module.shape, module.flag, module.name = 4, (2, 3), True, "x"
    model = nn.Module()
    model.inner = module
    with tainted(model, SizeInt, Heard([], [])) as values:
        assert module.width.origin == Attribute("inner.width", None)
        assert [entry.origin for entry in module.shape] == [Attribute("inner.shape", 0), Attribute("inner.shape", 1)]
        assert module.flag is True
    assert values == {
        Attribute("inner.width", None): 4,
        Attribute("inner.shape", 0): 2,
        Attribute("inner.shape", 1): 3,
    }


def test_comparisons_are_noticed() -> None:
    heard = Heard([], [])
    with tainted(nn.Module(), SizeInt, heard):
        a, b = tracked(4, A), tracked(6, Attribute("b", None))
        assert [a < b, a <= 4, bool(a), a != 4, a > 2.5] == [True, True, True, False, True]
    assert heard.comparisons == [
        Comparison("lt", A, b.origin, False),
        Comparison("le", A, Literal(4), True),
        Comparison("ne", A, Literal(0), False),
        Comparison("ne", A, Literal(4), True),
    ]
    assert heard.numbers == [A]


def test_remainders_powers_and_roundings_keep_the_origin() -> None:
    a = tracked(7, A)
    quotient, remainder = divmod(a, 3)
    assert (quotient.origin, remainder.origin) == (Computed("//", A, Literal(3)), Computed("%", A, Literal(3)))
    assert (quotient, remainder, a**2, abs(a), round(a), math.ceil(a)) == (2, 1, 49, 7, 7, 7)
    assert (a**2).origin == Computed("*", Computed("*", Literal(1), A), A)
    assert round(a).origin == A


def test_what_loses_the_origin_is_noticed() -> None:
    heard = Heard([], [])
    with tainted(nn.Module(), SizeInt, heard):
        a = tracked(6, A)
        assert [int(a), a >> 1, 1 << a, a & 3, ~a, a.bit_length(), 2**a] == [6, 3, 64, 2, -7, 3, 64]
    assert heard.numbers == [A] * 7
