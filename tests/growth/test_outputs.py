"""Results as tensors, and how far apart they are."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from growkit.errors import InputsError
from growkit.growth.outputs import floats_in, is_constant, old_part, relative, rounding

INF, NAN = float("inf"), float("nan")


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


class Plain:
    def __init__(self, inner: Any):
        self.inner = inner


@dataclass(slots=True)
class Slotted:
    inner: Any
    count: int = 0


@pytest.mark.parametrize("wrap", [Plain, Slotted, lambda x: {"a": [x]}, lambda x: Plain(Slotted((x, 3)))])
def test_tensors_are_found_in_any_result(wrap: Any) -> None:
    x = numbers(1, 2)
    assert [id(t) for t in floats_in((wrap(x), torch.tensor([3]), x, None))] == [id(x), id(x)]


def test_complex_numbers_are_pairs_of_reals() -> None:
    assert floats_in(torch.tensor([1 + 2j]).conj())[0].tolist() == [[1.0, -2.0]]


def test_the_difference_is_taken_over_the_largest_value() -> None:
    assert relative(numbers(4, 1), numbers(4, 3)) == (2.0, 0.5)
    assert relative(numbers(), numbers()) == (0.0, 0.0)
    assert relative(numbers(0, 0), numbers(0, 1e-300))[1] == INF
    assert relative(numbers(800, 1e-9), numbers(800, 2e-9))[1] == pytest.approx(1e-9 / 800)


@pytest.mark.parametrize("fill", [-1e9, -1e4, torch.finfo(torch.float64).min, -INF])
def test_large_numbers_put_in_by_hand_excuse_no_difference_elsewhere(fill: float) -> None:
    assert relative(numbers(fill, 2, fill), numbers(fill, 2.2, fill)) == pytest.approx((0.2, 0.1))
    assert relative(numbers(fill, fill), numbers(fill, fill)) == (0.0, 0.0)


def test_what_was_added_to_a_large_number_is_measured_against_it() -> None:
    assert relative(numbers(-1e9 + 1, 2), numbers(-1e9 + 3, 2))[1] == pytest.approx(2e-9)
    assert relative(numbers(-2e9, -1e9, 0, 0.5), numbers(-2e9, -1e9, 0, 0.6))[1] == pytest.approx(0.2)


def test_entries_of_many_sizes_are_of_one_kind() -> None:
    old = 10.0 ** torch.arange(-3, 7, dtype=torch.float64)
    assert relative(old, old + 1)[1] == pytest.approx(1e-6)


@pytest.mark.parametrize(("exact", "own"), [(-1.7e308, -3.4e38), (7e38, INF)])
def test_the_largest_number_of_a_dtype_is_no_rounding(exact: float, own: float) -> None:
    assert rounding(numbers(exact, 2), torch.tensor([own, 2.5])) == 0.25
    assert rounding(numbers(NAN, NAN), torch.tensor([2.0, NAN])) == INF


def test_constant_outputs() -> None:
    assert is_constant([numbers(0), numbers(2, 2), numbers()])
    assert not is_constant([numbers(0), numbers(3)])
    assert not is_constant([numbers(NAN, NAN)])


def test_of_an_output_that_grew_the_old_part_is_taken() -> None:
    assert old_part(torch.zeros(2, 3), torch.arange(12).view(3, 4)).tolist() == [[0, 1, 2], [4, 5, 6]]
    with pytest.raises(InputsError, match=r"an output of shape \(2, 1\) after, \(2, 3\) before"):
        old_part(torch.zeros(2, 3), torch.zeros(2, 1))
