"""What factors say about axes."""

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from growkit.axes.axis import Passage
from growkit.axes.union_find import Axes
from growkit.discovery.corrections import rename_passages
from growkit.discovery.discover import discover
from tests.discovery.models import X, reasons
from tests.discovery.scaled import net, rms, table


def test_a_passage_is_renamed_where_all_that_noted_it_on_the_axis_are_known() -> None:
    axes = Axes()
    one, other = axes.node(3, named=True), axes.node(3, named=True)
    for node in (one, other):
        for kind in ("square", "mean"):
            axes.note([node], kind, "here")
    serial = [axes.root(node).serial for node in (one, other)]
    rename_passages(
        axes,
        {
            (serial[0], "square", "here"): ["statistic", None],
            (serial[0], "mean", "here"): ["sum", "mean_square", "sum"],
            (serial[1], "square", "here"): ["statistic"],
        },
    )
    assert list(axes.shared(one).passages) == [Passage(k, "here") for k in ("square", "sum", "mean_square")]
    assert list(axes.shared(other).passages) == [Passage(k, "here") for k in ("statistic", "mean")]


def test_a_gain_with_a_number_added_is_shifted() -> None:
    found = table(lambda m, x: m.b(rms(m, m.a(x)) * (1 + m.g)))
    assert found.shifts == {"g": 1.0}
    assert table(lambda m, x: m.b(rms(m, m.a(x)) * m.g)).shifts == {}


def test_a_gain_that_is_used_with_and_without_the_number_is_locked() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        x = m.a(x)
        return m.b(rms(m, x) * (1 + m.g)) + m.b(x * m.g)

    found = table(run)
    assert found.shifts == {}
    assert "a parameter of it is used as it is, and with a number added" in reasons(found, "a.weight[0]")


def test_a_factor_is_put_on_occurrences_of_its_own_axis_only() -> None:
    """One gain over both axes of a picture; each factor goes to that axis in it."""

    def run(m: Any, x: Tensor) -> Tensor:
        return m.b(rms(m, m.a(x)))

    (axis,) = discover(net(run), X)["a.weight[0]"]
    places = {str(c.target) for c in axis.corrections}
    assert places == {"b.weight[1]", "eps"}
    assert all(Fraction(c.size + c.energy) == 0 for c in axis.corrections)


def test_a_norm_module_for_two_axes_ties_them_by_its_gain() -> None:
    def run(m: Any, x: Tensor) -> Tensor:
        return m.b(m.n(m.a(x))) + m.b(m.n(m.c(x)))

    found = discover(net(run, n=nn.RMSNorm(3, eps=1e-2), c=nn.Linear(5, 3)), X)
    assert found["a.weight[0]"] == found["c.weight[0]"]
    assert torch.tensor([c.energy for c in found["a.weight[0]"][0].corrections]).unique().tolist() == [0.5, 1.0]
