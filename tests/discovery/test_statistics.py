"""What squares, quotients and sums turn out to be in the whole run."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.discovery.models import passages
from tests.discovery.scaled import rms, table


def kinds(run: Any, **parts: Any) -> set[str]:
    return {kind for kind in passages(table(run, **parts), "a.weight[0]")} - {"uncentred", "centred"}


def test_a_square_that_is_only_averaged_is_a_statistic() -> None:
    assert kinds(lambda m, x: m.b(rms(m, m.a(x)) * m.g)) == {"statistic", "mean_square"}
    product = lambda m, x: m.b(m.a(x)) * (m.a(x) * m.a(x)).sum(-1, keepdim=True)  # noqa: E731
    assert "gate" in kinds(product)

    def itself(m: Any, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(x) * (x * x).sum(-1, keepdim=True)

    assert kinds(itself) == {"statistic", "mean_square"}


def test_a_square_that_is_read_is_a_function() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        square = m.a(x).square()
        return m.b(square) + square.sum(-1, keepdim=True)

    assert kinds(run) == {"pointwise:power", "mean_square"}


def test_another_power_at_the_same_place_keeps_both() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(rms(m, x) * m.g) + m.b(x.pow(3))

    assert "pointwise:power" in kinds(run)


def test_a_quotient_by_what_is_one_for_all_units() -> None:
    assert kinds(lambda m, x: m.b(F.normalize(m.a(x), dim=-1))) == {"statistic", "mean_square"}
    assert "pointwise:div" in kinds(lambda m, x: m.b(F.normalize(m.a(x), dim=1)))


def test_each_axis_by_itself() -> None:
    """One matmul over queries, one over places that a parameter holds, at the same place of the model."""

    def run(m: Any, x: Tensor) -> Tensor:
        scores = m.a(x) @ m.k(x).transpose(1, 2) + m.place
        return m.b(m.a(x)) + scores.softmax(-1) @ m.c(x)

    parts = {"k": nn.Linear(5, 3), "c": nn.Linear(5, 4), "place": nn.Parameter(torch.zeros(7, 7))}
    assert "contracted_queries" in kinds(run, **parts)


def test_functions_of_one_value_are_terms_not_a_stream() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(x + x**3)

    assert {"terms", "pointwise:power"} <= kinds(run)
    assert "residual" not in kinds(run)
