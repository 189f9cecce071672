"""Tests of ints with an origin."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from einops.layers.torch import Rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from growkit.discovery.discover import discover
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
from growkit.errors import VerificationError
from growkit.growth.api import grow
from growkit.nn import places
from tests.discovery.models import Small, X

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
        assert [made.powers for made in results] == [((A, p),) for p in (0.5, -0.5, 1.0, -1.0, 1.0)]
        assert seen == []
        assert [float(made) for made in results] == [2.0, 0.5, 0.5, 2.0, 2.0]
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


H = "a.weight[0].0"


def split(x: Tensor, h: int) -> Tensor:
    return x.unflatten(-1, (h, -1))


@pytest.mark.parametrize(
    ("kept", "place"),
    [
        ({"sizes": {"h": 3}}, "sizes['h']"),
        ({"sizes": [0, 3]}, "sizes[1]"),
        ({"config": SimpleNamespace(h=3)}, "config.h"),
        ({"split": partial(split, h=3)}, "split.keywords['h']"),
        ({"split": (lambda h: lambda x: split(x, h))(3)}, "split.__closure__['h']"),
        ({"split": Rearrange("b t (h d) -> b t h d", h=3)}, "split._axes_lengths[0][1]"),
    ],
)
def test_a_size_that_modules_keep_in_other_things_follows(kept: dict[str, Any], place: str) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        y = m.a(x)
        if hasattr(m, "split"):
            y = m.split(y)
        else:
            y = split(y, m.sizes["h" if isinstance(m.sizes, dict) else 1] if hasattr(m, "sizes") else m.config.h)
        return m.b(F.relu(y).flatten(2))

    model = Small(run, a=nn.Linear(5, 12), b=nn.Linear(12, 2), **kept)
    table = discover(model, X)
    assert [n.path + ("" if n.index is None else f"[{n.index}]") for n in table.numbers if n.read] == [place]
    report = grow(model, widen={H: 5}, example_inputs=X)
    assert report.verification.passed
    assert type(places.read(model, place)) is int
    assert places.read(model, place) == 5
    assert [n.value for n in discover(model, X).numbers if n.read] == [5]


def test_a_config_of_many_modules_is_one_number() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(F.relu(split(m.a(x), m.config.h).flatten(2)) + split(m.c(x), m.copy.h).flatten(2))

    config = SimpleNamespace(h=3)
    parts = {"a": nn.Linear(5, 12), "c": nn.Linear(5, 12), "b": nn.Linear(12, 2)}
    model = Small(run, **parts, config=config, copy=config)
    assert [n.path for n in discover(model, X).numbers if n.read] == ["config.h"]
    grow(model, widen={H: 5}, example_inputs=X)
    assert config.h == 5


def test_a_growth_that_fails_leaves_a_config_as_it_was() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        return m.b(F.relu(split(m.a(x), m.config.h).flatten(2)) / (0.5 * m.config.h))

    config = SimpleNamespace(h=3)
    model = Small(run, a=nn.Linear(5, 12), b=nn.Linear(12, 2), config=config)
    with pytest.raises(VerificationError):
        grow(model, widen={H: 5}, example_inputs=X)
    assert config == SimpleNamespace(h=3)
