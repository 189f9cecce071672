"""Floats that were computed from sizes: constants times powers."""

from collections.abc import Callable
from typing import Any

import pytest

from growkit.discovery.size_floats import Powers, SizeFloat, plain, size_float


def made() -> tuple[SizeFloat, list[Powers]]:
    """4.0, the size of `d`; and what was lost."""
    lost: list[Powers] = []
    return size_float(4.0, (("d", 1.0),), lost.append), lost


@pytest.mark.parametrize(
    ("compute", "value", "power"),
    [
        (lambda x: x * 3, 12.0, 1.0), (lambda x: 3 * x, 12.0, 1.0), (lambda x: x / 2, 2.0, 1.0),
        (lambda x: 1 / x, 0.25, -1.0), (lambda x: x**-0.5, 0.5, -0.5), (lambda x: -x, -4.0, 1.0),
        (lambda x: 2.0 / x**2, 0.125, -2.0),
    ],
)  # fmt: skip
def test_products_and_powers_are_followed(compute: Callable[[Any], Any], value: float, power: float) -> None:
    x, lost = made()
    found = compute(x)
    assert (plain(found), found.powers, lost) == (value, (("d", power),), [])


def test_products_of_two() -> None:
    x, lost = made()
    other = size_float(2.0, (("e", 0.5),), lost.append)
    product, quotient = x * other, x / other
    assert (plain(product), product.powers) == (8.0, (("d", 1.0), ("e", 0.5)))
    assert (plain(quotient), quotient.powers) == (2.0, (("d", 1.0), ("e", -0.5)))
    assert not lost


@pytest.mark.parametrize("compute", [lambda x: x + 1, lambda x: 1 - x, lambda x: x > 3, float, int, round, bool, abs])
def test_all_else_is_a_use_as_a_number(compute: Callable[[Any], Any]) -> None:
    x, lost = made()
    found = compute(x)
    assert type(found) in (float, int, bool)
    assert found == compute(4.0)
    assert lost == [(("d", 1.0),)]
