"""Factors, from where they arise to what takes them: by hand for 3 units that become 5 or 6."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit.axes.axis import Correction
from growkit.errors import GrowkitError
from tests.discovery.scaled import plan, rms, table


def corrections(run: Any, **parts: Any) -> set[tuple[str | None, float, float, float]]:
    (axis,) = table(run, **parts)["a.weight[0]"]
    return {(None if c.target is None else str(c.target), c.size, c.energy, c.total) for c in axis.corrections}


def factors(run: Any, method: str, new: int, **parts: Any) -> dict[str, float]:
    found = plan(run, method, new, **parts)
    return {s.tensor: s.factor for s in found.leaves} | {f.path: f.new / f.old for f in found.floats}


def norm(m: Any, x: Tensor) -> Tensor:
    return m.b(rms(m, m.a(x)) * m.g)


def test_a_mean_of_squares_is_put_right_by_gain_and_eps() -> None:
    """The mean square of 3 units and 2 zeros is 3/5 of that of the 3."""
    assert corrections(norm) == {("g[0]", -0.5, 0.5, 0.0), ("eps", -1.0, 1.0, 0.0)}
    found = factors(norm, "zero_pad", 5)
    assert found == {"g": pytest.approx(math.sqrt(3 / 5)), "eps": pytest.approx(3 / 5)}
    assert factors(norm, "isometric", 5) == pytest.approx(found)
    assert factors(norm, "copy", 6) == {}


def test_without_a_gain_the_reading_weight_takes_the_factor() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        return m.b(rms(m, m.a(x)))

    assert factors(run, "zero_pad", 5) == {"b.weight": pytest.approx(math.sqrt(3 / 5)), "eps": pytest.approx(3 / 5)}


def test_in_place_ops_are_ops() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        x = m.a(x)
        square = x.pow(2).mean(-1, keepdim=True)
        square.add_(m.eps)
        square.rsqrt_()
        return m.b(x * square * m.g)

    assert factors(run, "zero_pad", 5) == {"g": pytest.approx(math.sqrt(3 / 5)), "eps": pytest.approx(3 / 5)}


def test_a_sum_over_units_counts_copies() -> None:
    """The sum over 3 units that become 6 is twice as large, and nothing that holds the axis reads it."""

    def run(m: Any, x: Tensor) -> Tensor:
        return m.c(m.a(x).sum(-1, keepdim=True)) + m.b(torch.tanh(m.a(x)))

    assert corrections(run, c=nn.Linear(1, 4)) == {(None, 0.0, 0.0, -1.0)}


def test_an_eps_that_is_not_given_stays() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        return m.b(m.n(m.a(x)))

    found = factors(run, "zero_pad", 5, n=nn.RMSNorm(3))
    assert found == {"n.weight": pytest.approx(math.sqrt(3 / 5))}


def behind_a_view(m: Any, x: Tensor) -> Tensor:
    x = m.a(x)
    square = x.pow(2).mean(-1, keepdim=True)
    square[:, :1].mul_(3.0)
    return m.b(x * (square + m.eps).rsqrt() * m.g)


def given_out(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    x = m.a(x)
    return m.b(x), x.pow(2).mean(-1)


def through_a_function(m: Any, x: Tensor) -> Tensor:
    x = m.a(x)
    return m.b(x) * torch.sigmoid(x.pow(2).mean(-1, keepdim=True))


def beside_itself(m: Any, x: Tensor) -> Tensor:
    x = m.a(x)
    return m.b(x + rms(m, x))


@pytest.mark.parametrize("run", [behind_a_view, given_out, through_a_function, beside_itself])
def test_a_factor_that_nothing_can_take_is_refused(run: Any) -> None:
    for method in ("zero_pad", "isometric"):
        with pytest.raises(GrowkitError, match="a factor that no parameter can take over"):
            plan(run, method, 5)
    assert factors(run, "copy", 6) == {}


def test_a_correction_takes_the_sums_of_a_map() -> None:
    """6 units of 3, energy 2, total 2: 2 ** -1 * 2 ** 3 * 2 ** 0.5."""
    correction = Correction("eps", "", size=-1.0, energy=3.0, total=0.5)
    assert correction.factor(2.0, 2.0, 2.0) == pytest.approx(4 * math.sqrt(2))
    assert correction.factor(2.0, None, 2.0) is None
    assert correction.factor(2.0, 2.0, None) is None
    assert Correction("eps", "", size=1.0).factor(3.0, None, None) == 3.0
