"""Tests of the rules of complex numbers and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from growkit.discovery.discover import discover
from tests.discovery.copies import deviation_after_copies
from tests.discovery.models import Small, X, passages, reasons, weight


@pytest.mark.parametrize(
    ("transform", "kinds"),
    [
        (lambda x: torch.fft.fft(x, dim=1).real, set()),
        (lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=x.shape[1], dim=1), set()),
        (lambda x: torch.fft.fft2(x, dim=(0, 1)).imag, set()),
        (lambda x: torch.fft.fft(x, dim=1).conj().real, set()),
        (lambda x: torch.fft.rfft(x, dim=1).abs(), {"pointwise:abs"}),
        (lambda x: torch.view_as_real(torch.fft.rfft(x, dim=1)).sum(-1), set()),
        (lambda x: torch.complex(x, 2 * x).real, set()),
        (lambda x: torch.polar(x.abs(), x).real, {"pointwise:abs", "pointwise:polar"}),
    ],
)
@pytest.mark.parametrize("size", [4, 7])
def test_a_transform_over_frames_leaves_the_features_alone(
    transform: Callable[[Tensor], Tensor], kinds: set[str], size: int
) -> None:
    model = Small(lambda m, x: m.b(transform(m.a(x))), a=nn.Linear(5, size), b=nn.Linear(size, 2))
    table = discover(model, X)
    assert passages(table, "a.weight[0]") == kinds
    assert reasons(table, "a.weight[0]") == []
    assert deviation_after_copies(model, X, {"a.weight[0]": [*range(size), 0, 2]}) < 1e-12


@pytest.mark.parametrize("dim", [-1, (1, 2)])
def test_a_transform_over_features_locks_them(dim: int | tuple[int, int]) -> None:
    transform = torch.fft.fft if isinstance(dim, int) else torch.fft.fft2
    table = discover(Small(lambda m, x: transform(m.a(x), dim=dim).real, a=nn.Linear(5, 4)), X)
    assert "a Fourier transform runs over it" in reasons(table, "a.weight[0]")


@pytest.mark.parametrize("size", [3, 4])
def test_complex_weights_in_two_parts(size: int) -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        x = m.a(x).to(torch.complex128) * torch.view_as_complex(m.gain)
        return m.b((x @ torch.complex(m.real, m.imaginary)).real)

    parts = {"a": nn.Linear(5, size), "gain": weight(size, 2), "b": nn.Linear(4, 2)}
    model = Small(run, real=weight(size, 4), imaginary=weight(size, 4), **parts)
    table = discover(model, X)
    assert str(table.layouts["gain"]) == "a.weight[0]:gain gain[1]"
    assert reasons(table, "gain[1]") == ["it holds the real and the imaginary part"]
    assert str(table.layouts["real"]) == str(table.layouts["imaginary"]) == "a.weight[0]:consumes real[1]:produces"
    assert deviation_after_copies(model, X, {"a.weight[0]": [*range(size), 0], "real[1]": [0, 1, 2, 3, 3]}) < 1e-12


def test_pairs_that_are_complex_numbers_stay_pairs() -> None:
    def run(m: Small, x: Tensor) -> Tensor:
        turned = torch.view_as_complex(m.a(x).unflatten(-1, (-1, 2))) * torch.view_as_complex(m.turn)
        return m.b(torch.view_as_real(turned).flatten(-2))

    model = Small(run, a=nn.Linear(5, 6), turn=weight(3, 2), b=nn.Linear(6, 2))
    table = discover(model, X)
    assert str(table.layouts["a.bias"]) == "(a.weight[0].0 a.weight[0].1):produces"
    assert str(table.layouts["turn"]) == "a.weight[0].0:gain turn[1]"
    assert "it holds the real and the imaginary part" in reasons(table, "a.weight[0].1")
    assert reasons(table, "a.weight[0].0") == []
    assert deviation_after_copies(model, X, {"a.weight[0].0": [0, 1, 2, 0]}) < 1e-12
