"""Which op was given which float of a module."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit.discovery.discover import discover
from growkit.discovery.floats import Floats
from growkit.errors import GrowkitError
from tests.discovery.models import X
from tests.discovery.scaled import net, plan, rms


def floats_of(run: Any, **parts: Any) -> dict[str, float]:
    return {step.path: step.new for step in plan(run, "zero_pad", 5, **parts).floats}


def test_a_float_of_the_same_value_is_another_one() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        return m.b(rms(m, m.a(x)) * m.g) * m.other

    assert floats_of(run, other=1e-2) == {"eps": pytest.approx(0.6e-2)}


def test_a_number_in_the_code_is_none_of_them() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        return m.b(rms(m, m.a(x), 1e-2) * m.g) * m.eps

    with pytest.raises(GrowkitError, match="no parameter can take over"):
        floats_of(run)


def test_a_second_use_forbids_a_factor() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(rms(m, x) * m.g) / (m.c(x).abs() + m.eps)

    with pytest.raises(GrowkitError, match="no parameter can take over"):
        floats_of(run, c=nn.Linear(3, 4))


def test_two_norms_of_one_axis_may_share_one() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(rms(m, x + m.c(rms(m, x) * m.g)) * m.h)

    shared = {"c": nn.Linear(3, 3), "h": nn.Parameter(torch.ones(3))}
    assert floats_of(run, **shared) == {"eps": pytest.approx(0.6e-2)}


def test_two_norms_of_two_axes_may_not() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        return m.d(rms(m, m.c(rms(m, m.a(x)) * m.g)) * m.h)

    parts = {"c": nn.Linear(3, 2), "d": nn.Linear(2, 4), "h": nn.Parameter(torch.ones(2))}
    with pytest.raises(GrowkitError, match="no parameter can take over"):
        floats_of(run, **parts)


def test_the_model_keeps_the_objects_it_had() -> None:
    model = net(lambda m, x: m.b(rms(m, m.a(x)) * m.g))
    before = model.eps
    discover(model, X)
    assert model.eps is before


def test_floats_by_hand() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eps, self.rate = 0.5, 0.5

    model, floats = Holder(), Floats()
    floats.own({"": model})
    assert model.eps is not model.rate
    with floats.given([model.eps]):
        floats.op(3, [0.5])
        floats.op(4, [2])
    assert (floats.place(3, 0.5), floats.place(3, 0.4), floats.place(4, 0.5)) == ("eps", None, None)
    assert floats.value("eps") == 0.5
    assert floats.only("eps", 1)
    assert not floats.only("eps", 2)
    with floats.given([model.eps]):
        floats.op(5, [1.0])  # computed with inside the function
    assert not floats.only("eps", 1)
    assert floats.only("rate", 0)
