"""What can be said of a model before a growth, and how exactly."""

import pytest
import torch
from torch import Tensor, nn

from growkit.errors import InputsError
from growkit.growth.reference import EXACT, measure
from growkit.growth.running import AS_IT_IS, Way
from growkit.testing import randomise
from tests.growth.nets import Gives, residual, rows

WIDE, TRAIN, WIDE_TRAIN = Way(float64=True), Way(training=True), Way(float64=True, training=True)


def test_models_in_double_precision_run_as_they_are() -> None:
    reference = measure(residual(), rows())
    assert {way: tolerances for way, (_, tolerances) in reference.measured.items()} == {
        AS_IT_IS: (EXACT,),
        TRAIN: (EXACT,),
    }
    assert reference.skipped is None


def test_a_model_in_double_precision_that_casts_inside_is_compared_without_its_casts() -> None:
    class Casts(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).float().softmax(-1).to(x.dtype)

    model, x = randomise(Casts(3, 4).double()), rows()
    measured = measure(model, x).measured
    assert {way: tolerances for way, (_, tolerances) in measured.items()} == {WIDE: (EXACT,), WIDE_TRAIN: (EXACT,)}
    assert torch.equal(measured[WIDE][0][0], nn.functional.linear(x, model.weight, model.bias).softmax(-1))


@pytest.mark.parametrize(("dtype", "rounds"), [(torch.float32, 1e-5), (torch.bfloat16, 0.2)])
def test_lower_dtypes_are_compared_in_float64_too(dtype: torch.dtype, rounds: float) -> None:
    """Where no weight is rounded, the tolerance there is that of an exact growth, whatever the dtype."""
    model, x = residual(hidden=64).to(dtype), rows(64).to(dtype)
    exact = measure(model, x, rounded=[]).measured
    assert list(exact) == [WIDE, AS_IT_IS, WIDE_TRAIN]
    assert exact[WIDE][1] == exact[WIDE_TRAIN][1] == (EXACT,)
    any_weight, one = (measure(model, x, rounded=names).measured[WIDE][1][0] for names in (None, ["last.bias"]))
    assert torch.finfo(dtype).eps / 8 < one < any_weight < exact[AS_IT_IS][1][0] < rounds


def test_where_float64_does_not_run_the_dtype_of_the_model_has_to_do() -> None:
    class Strict(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            result = super().forward(x)
            if result.dtype != torch.float32:
                raise TypeError("float32 only")
            return result

    model = randomise(Strict(3, 4))
    reference = measure(model, rows().float())
    assert list(reference.measured) == [AS_IT_IS, TRAIN]
    eps = torch.finfo(torch.float32).eps
    assert 16 * eps <= reference.measured[AS_IT_IS][1][0] < 1e-5


def test_numbers_that_come_out_in_a_wider_dtype_are_as_inexact_as_the_weights() -> None:
    class Late(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).double()

    assert min(measure(randomise(Late(3, 4)), rows().float()).measured[AS_IT_IS][1]) > 1e-7


def test_why_train_mode_is_not_compared() -> None:
    norm = randomise(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double())
    assert measure(norm, rows(1)).skipped == (
        "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 4])"
    )
    assert measure(Gives(lambda x: x), rows()).skipped is None

    class Silent(nn.Module):
        def forward(self, x: Tensor) -> Tensor | None:
            return None if self.training else x

    assert measure(Silent(), rows()).skipped == "a model whose result holds no floating-point tensor"


def test_constant_outputs_prove_nothing() -> None:
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False)).double()
    with pytest.raises(InputsError, match="outputs are one number throughout") as error:
        measure(model, 0 * rows())
    assert "other inputs" in error.value.next_step
    with pytest.raises(InputsError, match="outputs are one number throughout"):
        measure(Gives(lambda x: (0 * x, 0 * x.sum())), rows())
    assert measure(Gives(lambda x: (0 * x, x.sum())), rows()).skipped is None


def test_random_numbers_of_another_dtype_do_not_spoil_the_comparison() -> None:
    """float64 draws other numbers than float32; runs of one dtype draw the same."""
    reference = measure(Gives(lambda x: x + torch.randn_like(x)), rows().float(), rounded=[])
    assert list(reference.measured) == [WIDE, WIDE_TRAIN]
