"""Is the function kept? And can the check fail?"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from growkit import verify
from growkit.errors import InputsError
from growkit.growth.reference import EXACT, measure
from growkit.growth.running import AS_IT_IS
from growkit.growth.verify import first_deviation, record
from growkit.testing import randomise
from tests.growth.nets import Gives, Residual, picture, residual, rows


def _shifted(model: nn.Module, name: str, by: float) -> nn.Module:
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.get_parameter(name).add_(by)
    return other


def test_equal_models_do_not_deviate() -> None:
    result = verify(residual(), residual(), rows())
    assert (result.max_abs, result.max_rel, result.passed, result.first_deviation) == (0.0, 0.0, True, None)
    assert result.tolerance == EXACT == 1e-12


def test_the_deviation_is_the_largest_difference_over_the_largest_value() -> None:
    before, after = nn.Linear(1, 2, bias=False).double(), nn.Linear(1, 2, bias=False).double()
    before.weight.data = torch.tensor([[4.0], [1.0]], dtype=torch.float64)
    after.weight.data = torch.tensor([[4.0], [3.0]], dtype=torch.float64)
    result = verify(before, after, torch.ones(1, 1, dtype=torch.float64))
    assert (result.max_abs, result.max_rel) == (2.0, 0.5)
    assert not result.passed


def test_the_first_module_that_deviates_is_named() -> None:
    model = residual()
    result = verify(model, _shifted(model, "blocks.1.up.bias", 1e-6), rows())
    assert not result.passed
    assert result.first_deviation == "blocks.1.up"
    assert "NOT kept" in str(result)
    assert "first at blocks.1.up" in str(result)
    assert verify(model, _shifted(model, "blocks.1.up.bias", 1e-14), rows()).passed


def test_a_module_of_another_shape_cannot_be_compared() -> None:
    ones = {"a": [torch.ones(2)], "b": [torch.ones(3)], "c": []}
    assert first_deviation(ones, {"a": [torch.zeros(3)], "b": [torch.ones(3)]}, 0.0) is None
    assert first_deviation(ones, {"a": [torch.ones(2)], "b": [torch.zeros(3)]}, 0.0) == "b"
    assert first_deviation({"": [torch.ones(1)]}, {"": [torch.zeros(1)]}, 0.0) == "(the whole model)"
    assert first_deviation(ones, {"z": [torch.ones(2) * 2]}, 0.0, lambda path: "z" if path == "a" else path) == "a"


def test_results_are_recorded_by_path() -> None:
    model = residual()
    found = record(model, rows())
    assert list(found)[:3] == ["first", "blocks.0.norm", "blocks.0.up"]
    assert list(found)[-1] == ""
    assert torch.equal(found[""][0], model(rows()))


@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 0.3)])
def test_rounding_is_measured_in_low_precision(dtype: torch.dtype, most: float) -> None:
    """A model and the same model with permuted hidden units differ by rounding, and only by that."""
    model = residual(hidden=64).to(dtype)
    permuted = copy.deepcopy(model)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    for block in permuted.blocks:
        block.up.weight.data, block.up.bias.data = block.up.weight.data[order], block.up.bias.data[order]
        block.down.weight.data = block.down.weight.data[:, order]
    result = verify(model, permuted, rows(64).to(dtype))
    assert result.max_rel <= result.tolerance <= most
    wrong = 2 * most * float(model(rows(64).to(dtype)).detach().abs().max())
    assert not verify(model, _shifted(model, "last.bias", wrong), rows(64).to(dtype)).passed
    exact = verify(model, permuted, rows(64).to(dtype), float64=True)
    assert exact.max_rel <= 1e-14
    assert exact.tolerance == EXACT


def test_float64_on_request_sees_what_rounding_hides() -> None:
    model = residual().float()
    other = _shifted(model, "last.bias", 0.0)
    other.last.bias.data[0] = torch.nextafter(other.last.bias.data[0], torch.tensor(9.0))
    assert verify(model, other, rows().float()).passed
    result = verify(model, other, rows().float(), float64=True)
    assert not result.passed
    assert result.first_deviation == "last"


def test_neither_model_is_changed() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model = randomise(model.double())
    other = copy.deepcopy(model).eval()
    before = picture(model), picture(other)
    assert verify(model, other, rows()).max_rel == 0
    assert (picture(model), picture(other)) == before


@dataclass
class Result:
    logits: Tensor
    state: dict[str, list[Tensor]]

    def to_tuple(self) -> tuple[Any, ...]:
        return self.logits, self.state


def test_nested_outputs_are_compared() -> None:
    before = Gives(lambda x: {"a": [x, (2 * x,)], "lengths": torch.tensor([3])})
    assert verify(before, Gives(lambda x: {"a": [x, (2 * x,)], "lengths": torch.tensor([4])}), rows()).max_rel == 0
    assert verify(before, Gives(lambda x: {"a": [x, (3 * x,)], "lengths": None}), rows()).max_rel == 0.5
    ours = Gives(lambda x: Result(x, {"h": [x]}))
    assert verify(ours, Gives(lambda x: Result(x, {"h": [2 * x]})), rows()).max_rel == 1.0


def test_of_an_output_that_grew_the_old_part_is_compared() -> None:
    before, after = Gives(lambda x: x), Gives(lambda x: torch.cat([x, 9 * x], -1))
    assert verify(before, after, rows()).max_rel == 0
    with pytest.raises(InputsError, match=r"an output of shape \(6, 3\) after, \(6, 6\) before"):
        verify(after, before, rows())
    with pytest.raises(InputsError, match=r"\(6, 3, 1\) after"):
        verify(before, Gives(lambda x: x[..., None]), rows())


def test_outputs_that_do_not_correspond_are_refused() -> None:
    with pytest.raises(InputsError, match="2 output tensors after, 1 before"):
        verify(Gives(lambda x: x), Gives(lambda x: (x, x)), rows())
    for nothing in (None, torch.tensor([1]), "text"):
        with pytest.raises(InputsError, match="no floating-point tensor"):
            measure(Gives(lambda x, nothing=nothing: nothing), rows())


def test_inputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputsError, match=r"Residual raises RuntimeError on the example inputs \(float64\[2, 9\]\)"):
        verify(residual(), residual(), torch.ones(2, 9, dtype=torch.float64))


def _masked(number: float) -> Gives:
    return Gives(lambda x: torch.where(x > 0, x, number))


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("before", "after", "deviation"),
    [
        (-INF, -INF, 0.0),
        (NAN, NAN, 0.0),
        (-INF, INF, INF),
        (0.0, NAN, INF),
        (NAN, 0.0, INF),
        (INF, NAN, INF),
        (0.0, INF, INF),
    ],
)
def test_the_same_infinity_is_no_difference(before: float, after: float, deviation: float) -> None:
    assert verify(_masked(before), _masked(after), rows()).max_rel == deviation
    assert verify(_masked(before), _masked(after), rows().float()).max_rel == deviation


def test_differences_beside_infinities_are_seen() -> None:
    doubled = Gives(lambda x: torch.where(x > 0, 2 * x, -INF))
    assert verify(_masked(-INF), doubled, rows()).max_rel == 1.0


def test_a_model_without_any_finite_output_cannot_be_verified() -> None:
    with pytest.raises(InputsError, match="hold no finite number"):
        verify(Gives(lambda x: x * NAN), Gives(lambda x: x * NAN), rows())


def _half(*made: Callable[[Tensor], Tensor]) -> Gives:
    return Gives(lambda x: tuple(make(x) for make in made))


def test_an_output_that_overflows_in_its_own_dtype_cannot_be_verified() -> None:
    """70000 is infinite in half precision, and a number in float64."""
    overflows = lambda x: 70000 * torch.ones_like(x)  # noqa: E731
    x = rows().half()
    with pytest.raises(InputsError) as error:
        verify(_half(lambda x: x, overflows), _half(lambda x: 1.1 * x, overflows), x)
    assert error.value.given.startswith("output tensor 1 (of 2), whose own rounding in torch.float16 is inf")
    assert "float64=True" in error.value.next_step
    exact = verify(_half(lambda x: x, overflows), _half(lambda x: 1.1 * x, overflows), x, float64=True)
    assert exact.max_rel == pytest.approx(0.1)


def test_entries_that_overflow_excuse_no_others() -> None:
    """The first row overflows in half precision; the others are compared."""
    large = lambda x, by: torch.cat([70000 + 0 * x[:1], by * x[1:]])  # noqa: E731
    x = rows().half()
    kept = verify(Gives(lambda x: large(x, 1.0)), Gives(lambda x: large(x, 1.0)), x)
    assert (kept.max_rel, kept.passed) == (0.0, True)
    assert not verify(Gives(lambda x: large(x, 1.0)), Gives(lambda x: large(x, 1.1)), x).passed
    assert verify(Gives(lambda x: large(x, 1.0)), Gives(lambda x: x), x).max_rel == INF


def test_an_output_of_rounding_alone_cannot_be_verified() -> None:
    """(x + 1000) - 1000 in half precision is x to the nearest half: off by more than an eighth of the largest."""
    noise = Gives(lambda x: (x, (x / 4 + 1000) - 1000))
    with pytest.raises(InputsError, match=r"output tensor 1 \(of 2\)"):
        measure(noise, rows().half())
    assert len(measure(noise, rows().float()).measured[AS_IT_IS][1]) == 2


def test_an_inexact_output_does_not_excuse_the_others() -> None:
    """The second output is right to some hundredths only; the first must be right to the rounding of half."""
    inexact = lambda x: (x + 100) - 100  # noqa: E731
    before, x = _half(lambda x: x, inexact), rows().half()
    exact, loose = measure(before, x).measured[AS_IT_IS][1]
    assert exact == 16 * torch.finfo(torch.float16).eps
    assert loose > 3 * exact
    result = verify(before, _half(lambda x: 1.03 * x, inexact), x)
    assert exact < result.max_rel < loose
    assert result.way.float64
    assert (result.tolerance, result.passed) == (EXACT, False)  # in float64, in which both are exact


def test_the_worst_output_is_reported() -> None:
    before, after = _half(lambda x: x, lambda x: 100 * x), _half(lambda x: 1.5 * x, lambda x: 110 * x)
    result = verify(before, after, torch.tensor([[1.0, 0.5]], dtype=torch.float64))
    assert (result.max_abs, result.max_rel) == (0.5, 0.5)


def test_zero_outputs_and_empty_ones() -> None:
    zero = Gives(lambda x: (x, 0 * x))
    assert verify(zero, zero, rows()).max_rel == 0
    assert verify(zero, Gives(lambda x: (x, 0 * x + 1e-300)), rows()).max_rel == INF
    both = Gives(lambda x: (x, x[:0]))
    assert verify(both, both, rows()).max_rel == 0


def test_another_entry_than_forward() -> None:
    model = residual()
    call = lambda m, inputs: m.first(inputs["x"])  # noqa: E731
    assert verify(model, _shifted(model, "last.bias", 1.0), {"x": rows()}, call=call).max_rel == 0
    assert verify(model, _shifted(model, "first.bias", 1.0), {"x": rows()}, call=call).max_rel > 0.1


def test_compiled_models_are_looked_into() -> None:
    model = residual()
    compiled = torch.compile(model, backend="eager")
    assert verify(compiled, model, rows()).max_rel == 0


class InTraining(Residual):
    """Computes something else in train mode, as told."""

    def __init__(self, change: Callable[[Tensor], Tensor]):
        super().__init__()
        self.change = change
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.blocks[0](self.first(x))
        return self.last(self.change(hidden) if self.training else hidden)


def _in_training(change: Callable[[Tensor], Tensor] = lambda h: h) -> InTraining:
    return randomise(InTraining(change).double())


def test_train_mode_is_compared_too() -> None:
    before, after = _in_training(), _in_training(lambda h: h * 1.01)
    result = verify(before, after, rows())
    assert (result.passed, result.training, result.way.training) == (False, "NOT kept", True)
    assert result.first_deviation == "last"
    assert str(result).endswith("in train mode, first at last; train mode: NOT kept")
    assert verify(before.eval(), after.eval(), rows()).training == "NOT kept"
    assert str(verify(before, _in_training(), rows())).endswith("in eval mode; train mode: kept")


def test_train_mode_with_random_numbers_or_errors_is_not_compared_and_that_is_said() -> None:
    random = _in_training(lambda h: h + torch.randn(4, dtype=h.dtype))
    assert verify(random, random, rows()).training == "kept"  # the same numbers are drawn
    more = _in_training(lambda h: h + torch.randn(2, 4, dtype=h.dtype)[1])
    result = verify(random, more, rows())
    assert result.passed
    assert result.training == "not compared: the model draws random numbers in it, beside those of dropout"
    one = _in_training(lambda h: nn.functional.batch_norm(h, None, None, training=True))
    result = verify(one, one, rows(1))
    assert str(result).split("train mode: ")[1].startswith("not compared: ValueError: Expected more than 1 value")


def test_masked_scores_excuse_no_error() -> None:
    masked = lambda by: Gives(lambda x: (by * x).masked_fill(x > 1, torch.finfo(x.dtype).min))  # noqa: E731
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x = rows().to(dtype)
        assert verify(masked(1.0), masked(1.0), x).max_rel == 0
        result = verify(masked(1.0), masked(1.01), x)
        assert not result.passed
        assert result.max_rel == pytest.approx(0.01)


def test_tensors_in_objects_are_compared() -> None:
    class Plain:
        def __init__(self, x: Tensor):
            self.x = x

    assert verify(Gives(lambda x: (x, Plain(x))), Gives(lambda x: (x, Plain(2 * x))), rows()).max_rel == 1


def test_in_low_precision_an_error_of_a_percent_is_seen() -> None:
    """The dtype's own rounding would explain it."""
    before, after = (Gives(lambda x, by=by: by * x) for by in (1.0, 1.01))
    result = verify(before, after, rows().bfloat16())
    assert (result.passed, result.way.float64) == (False, True)
    assert result.max_rel == pytest.approx(0.01)
