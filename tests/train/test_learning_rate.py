"""Setting rates beside schedulers; the expected rates are worked out by hand from the schedules' definitions."""

from collections.abc import Callable

import pytest
import torch
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from growkit.errors import SettingsError
from growkit.train.learning_rate import check_learning_rate, rates_by_optimizer, set_learning_rate


def make_sgd(*rates: float) -> torch.optim.SGD:
    return torch.optim.SGD([{"params": [torch.zeros(1, requires_grad=True)], "lr": rate} for rate in rates])


def rates_after(make: Callable[[torch.optim.Optimizer], LRScheduler], *, before: int, after: int) -> list[float]:
    """Rates used: `before` steps on base rate 1, then base rate 10, then `after` steps."""
    optimizer = make_sgd(1.0)
    scheduler = make(optimizer)
    rates = []
    for index in range(before + after):
        if index == before:
            set_learning_rate(optimizer, [scheduler], 10.0)
            assert scheduler.get_last_lr() == [optimizer.param_groups[0]["lr"]]
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_without_a_scheduler_the_rate_is_the_value() -> None:
    optimizer = make_sgd(0.1, 0.1)
    set_learning_rate(optimizer, [], 0.3)
    assert [group["lr"] for group in optimizer.param_groups] == [0.3, 0.3]
    assert "initial_lr" not in optimizer.param_groups[0]


@pytest.mark.parametrize(
    ("make", "rates"),
    [
        (lambda o: lr_scheduler.LambdaLR(o, lambda n: 1 / (1 + n)), [1, 1 / 2, 10 / 3, 10 / 4, 10 / 5]),
        (lambda o: lr_scheduler.StepLR(o, 2, gamma=0.5), [1, 1, 5, 5, 2.5]),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.5), [1, 0.5, 2.5, 1.25, 0.625]),
        (lambda o: lr_scheduler.LinearLR(o, 0.5, 1.0, total_iters=2), [0.5, 0.75, 10, 10, 10]),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 4), [1, (1 + 0.5**0.5) / 2, 5, 5 * (1 - 0.5**0.5), 0]),
        (
            lambda o: lr_scheduler.SequentialLR(
                o, [lr_scheduler.ConstantLR(o, 0.1, 9), lr_scheduler.LambdaLR(o, lambda n: 1 / (1 + n))], [3]
            ),
            [0.1, 0.1, 1, 10, 5],
        ),
    ],
    ids=["lambda", "step", "exponential", "linear", "cosine", "sequential"],
)
def test_a_schedule_goes_on_from_the_new_base_rate(
    make: Callable[[torch.optim.Optimizer], LRScheduler], rates: list[float]
) -> None:
    assert rates_after(make, before=2, after=3) == pytest.approx(rates, abs=1e-15)


def test_a_second_value_replaces_the_first() -> None:
    optimizer = make_sgd(1.0)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda n: 0.5)
    for value in (10.0, 4.0):
        set_learning_rate(optimizer, [scheduler], value)
    assert optimizer.param_groups[0]["lr"] == 2.0
    assert optimizer.param_groups[0]["initial_lr"] == 4.0


def test_a_base_rate_of_zero_has_no_factor() -> None:
    optimizer = make_sgd(0.0)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda n: 1.0)
    set_learning_rate(optimizer, [scheduler], 0.2)
    assert optimizer.param_groups[0]["lr"] == 0.2


def test_a_rate_held_as_a_tensor_is_changed_in_place() -> None:
    rate = torch.tensor(0.1)
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=rate, capturable=False, foreach=False)
    set_learning_rate(optimizer, [], 0.5)
    assert optimizer.param_groups[0]["lr"] is rate
    assert float(rate) == 0.5


def test_groups_of_different_rates_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"parameter groups with the rates 0\.1, 0\.01"):
        check_learning_rate(make_sgd(0.1, 0.01), [], 0.3)
    check_learning_rate(make_sgd(0.1, 0.1), [], 0.3)


def test_a_scheduler_that_keeps_no_base_rate_is_refused() -> None:
    optimizer = make_sgd(0.1)
    chained = lr_scheduler.ChainedScheduler([lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=9)])
    with pytest.raises(SettingsError, match=r"learning_rate=0\.3 beside OneCycleLR"):
        check_learning_rate(optimizer, [chained], 0.3)


def test_rates_are_given_to_optimizers_by_name() -> None:
    names = ["gen", "disc"]
    assert rates_by_optimizer(None, names) == {}
    assert rates_by_optimizer(0.1, names) == {"gen": 0.1, "disc": 0.1}
    assert rates_by_optimizer({"disc": 0.0, "gen": None}, names) == {"disc": 0.0}
    with pytest.raises(SettingsError) as caught:
        rates_by_optimizer({"dics": 0.1}, names)
    assert caught.value.next_step == "write 'disc'"
