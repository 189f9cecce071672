"""Learning-rate factors: with them the grown net follows the small one step by step."""

from functools import partial

import pytest
import torch

from growkit.maps.lifting import DimMap
from growkit.optim.adam import ADAM
from growkit.optim.factors import learning_rate_factor
from growkit.optim.rules import OptimizerSpec
from growkit.optim.sgd import SGD
from tests.optim.twins import (
    LAYOUTS,
    SIZES,
    UNEQUAL,
    UNIFORM,
    forward,
    mapped,
    random_parameters,
    relative,
    train_twins,
)

# Rows and columns both double, and both are read by the next layer: by hand from V / A^r.
SGD_FACTORS = {"first": 2.0, "first_bias": 2.0, "gain": 2.0, "gain_bias": 2.0, "second": 1.0, "second_bias": 2.0}
ADAM_FACTORS = {"first": 1.0, "first_bias": 1.0, "gain": 1.0, "gain_bias": 1.0, "second": 0.5, "second_bias": 1.0}
CASES = [
    (partial(torch.optim.SGD, momentum=0.9, lr=0.05), SGD, SGD_FACTORS | {"third": 0.5, "third_bias": 1.0}),
    # eps is not scaled here, so it must not matter.
    (partial(torch.optim.Adam, lr=0.02, eps=1e-30), ADAM, ADAM_FACTORS | {"third": 0.5, "third_bias": 1.0}),
]


@pytest.mark.parametrize(("optimize", "spec", "expected"), CASES)
def test_the_grown_net_follows(
    optimize: partial[torch.optim.Optimizer], spec: OptimizerSpec, expected: dict[str, float]
) -> None:
    dims = train_twins(optimize, UNIFORM, 0, steps=1).dims
    factors = {name: learning_rate_factor(dims[name], spec.update_degree) for name in LAYOUTS}
    assert factors == expected
    assert _distance(optimize, factors) <= 1e-10
    assert _distance(optimize, dict.fromkeys(LAYOUTS, 1.0)) > 1e-2


def _distance(optimize: partial[torch.optim.Optimizer], factors: dict[str, float]) -> float:
    """How far the grown net is from the mapped small one after 10 steps of each on the same batches."""
    generator = torch.Generator().manual_seed(0)
    small = random_parameters(generator)
    grown = {name: value.detach().requires_grad_() for name, value in mapped(small, UNIFORM).items()}
    lr = optimize.keywords["lr"]
    pair = [
        optimize(list(small.values())),
        optimize([{"params": [p], "lr": lr * factors[name]} for name, p in grown.items()]),
    ]
    for _ in range(10):
        x = torch.randn(6, SIZES["in"], generator=generator, dtype=torch.float64)
        for parameters, optimizer in zip((small, grown), pair, strict=True):
            optimizer.zero_grad()
            forward(parameters, x).sin().square().mean().backward()
            optimizer.step()
    followed = mapped(small, UNIFORM)
    return max(relative(grown[name].detach(), followed[name].detach()) for name in grown)


def test_no_single_factor_for_unequal_shares() -> None:
    dims = train_twins(CASES[0][0], UNEQUAL, 0, steps=1).dims
    assert learning_rate_factor(dims["first"], 1) is None
    assert learning_rate_factor(dims["third"], 0) is None
    assert learning_rate_factor(dims["first"], 0) == 1.0
    assert learning_rate_factor(dims["third_bias"], 0) == 1.0


def test_no_factor_without_gradient() -> None:
    assert learning_rate_factor([DimMap(1, (0, 0), (1.0, 1.0), None, (None, None))], 0) is None


def test_new_entries_do_not_count() -> None:
    partly_new = DimMap(2, (0, 1, -1), (1.0, 1.0, 0.0), (1.0, 1.0, 0.0), (None,) * 3)
    assert learning_rate_factor([partly_new, None], 1) == 1.0


def test_no_factor_for_a_copy_without_a_gradient() -> None:
    dormant = DimMap(1, (0, 0), (1.0, 1.0), (1.0, 0.0), (None, None))
    assert learning_rate_factor([dormant], 1) is None
    assert learning_rate_factor([dormant], 0) == 1.0
