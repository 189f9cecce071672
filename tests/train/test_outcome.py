"""Return values of train steps."""

import numpy as np
import pytest
import torch

from growkit.errors import EngineError
from growkit.train.outcome import NO_CARRY, as_measurement, as_step_result


def loss(value: float = 2.0) -> torch.Tensor:
    return torch.tensor(value, requires_grad=True) * 1


def test_a_loss_alone() -> None:
    given = loss()
    outcome = as_step_result(given)
    assert outcome.loss.grad_fn is not None
    assert outcome.metrics == {"loss": 2.0}
    assert not outcome.metrics["loss"].requires_grad


def test_a_dict_with_metrics_of_all_scalar_kinds() -> None:
    given = {"loss": loss(), "accuracy": torch.tensor([0.5]), "tokens": 12, "scale": loss(3.0), "f1": np.float32(0.25)}
    outcome = as_step_result(given)
    assert {name: float(value) for name, value in outcome.metrics.items()} == {
        "loss": 2.0,
        "f1": 0.25,
        "accuracy": 0.5,
        "tokens": 12.0,
        "scale": 3.0,
    }
    assert not outcome.metrics["scale"].requires_grad


def test_a_carry_comes_beside_the_loss_or_the_dict() -> None:
    assert as_step_result(loss()).carry is NO_CARRY
    assert as_step_result((loss(), None)).carry is None
    with_metrics = as_step_result(({"loss": loss(), "tokens": 3}, [1]))
    assert (with_metrics.carry, with_metrics.metrics) == ([1], {"loss": 2.0, "tokens": 3.0})


def test_without_a_loss_to_differentiate_there_may_be_none() -> None:
    assert as_step_result(None, needs_loss=False).metrics == {}
    result = as_step_result({"loss": 1.5, "tokens": 3}, needs_loss=False)
    assert (result.loss, result.metrics) == (None, {"loss": 1.5, "tokens": 3.0})


@pytest.mark.parametrize(
    ("result", "given"),
    [
        (None, "train_step returned NoneType as its loss"),
        (1.5, "train_step returned float as its loss"),
        ((loss(), 1, 2), "train_step returned a tuple of 3"),
        ({"los": 1}, "train_step returned a dict with the keys ['los']"),
        (torch.zeros(3, requires_grad=True), "train_step returned a loss of shape (3,)"),
        (torch.tensor(1.0), "train_step returned a loss that depends on no trainable parameter"),
        ({"loss": loss(), "scores": torch.zeros(2)}, "the metric 'scores' is a Tensor of shape (2,)"),
        ({"loss": loss(), "name": "x"}, "the metric 'name' is a str"),
        ({"loss": loss(), "step": 3}, "a metric named 'step'"),
        ({"loss": loss(), "loss_mean": 3.0}, "metrics named 'loss' and 'loss_mean'"),
        ({"loss": loss(), "f1": torch.tensor(1 + 2j)}, "the metric 'f1' is of torch.complex64"),
        ({"loss": loss(), "f1": 10**400}, "the metric 'f1' is larger than any float"),
        (loss() * 1j, "train_step returned a loss of torch.complex64"),
    ],
)
def test_anything_else_is_refused(result: object, given: str) -> None:
    with pytest.raises(EngineError) as caught:
        as_step_result(result)
    assert caught.value.given == given


def test_a_measurement_is_one_number_or_a_dict_with_a_count() -> None:
    alone = as_measurement(loss())
    assert (alone.values, alone.count) == ({"loss": 2.0}, None)
    assert not alone.values["loss"].requires_grad
    assert as_measurement(1.5).values == {"loss": 1.5}
    measured = as_measurement({"accuracy": torch.tensor([0.5]), "count": 12})
    assert (measured.values, measured.count) == ({"accuracy": 0.5}, 12.0)


@pytest.mark.parametrize(
    ("result", "given"),
    [
        (None, "the metric 'loss' is a NoneType"),
        (torch.zeros(3), "the metric 'loss' is a Tensor of shape (3,)"),
        ({"count": 3}, "eval_step returned no metric"),
        ({"loss": 1.0, "count": "many"}, "the metric 'count' is a str"),
        ({"epoch": 1.0}, "a metric named 'epoch'"),
        (torch.tensor(1j), "the metric 'loss' is of torch.complex64"),
        (10**400, "the metric 'loss' is larger than any float"),
    ],
)
def test_any_other_measurement_is_refused(result: object, given: str) -> None:
    with pytest.raises(EngineError) as caught:
        as_measurement(result)
    assert caught.value.given == given
