"""Settings that change by themselves."""

from collections.abc import Callable
from typing import Any

import pytest

from growkit.errors import SettingsError
from growkit.train.setting_values import ChangingSetting, ComputedSetting, EpochwiseSetting, StepwiseSetting


def values(setting: ChangingSetting, points: list[tuple[int, int]]) -> list[object]:
    return [setting.at(epoch=epoch, step=step, updates=step // 2) for epoch, step in points]


def test_each_value_of_a_table_holds_from_its_key_on() -> None:
    points = [(1, 0), (1, 9), (2, 10), (4, 11), (5, 99), (6, 1000)]
    assert values(StepwiseSetting({1000: "c", 0: "a", 10: "b"}), points) == ["a", "a", "b", "b", "b", "c"]
    assert values(EpochwiseSetting({1: "a", 5: "c", 2: "b"}), points) == ["a", "a", "b", "b", "c", "c"]


def test_a_function_gets_what_it_names() -> None:
    points = [(1, 3), (2, 8)]
    assert values(ComputedSetting(lambda step: step + 0.5), points) == [3.5, 8.5]
    assert values(ComputedSetting(lambda epoch, updates, other=7: (epoch, updates, other)), points) == [
        (1, 1, 7),
        (2, 4, 7),
    ]


@pytest.mark.parametrize(
    ("make", "given", "next_step"),
    [
        (lambda: StepwiseSetting([1]), "StepwiseSetting([1])", "write StepwiseSetting({0: value, ...})"),  # type: ignore[arg-type]
        (lambda: StepwiseSetting({}), "StepwiseSetting({}), without a value to begin with", "add the key 0"),
        (lambda: StepwiseSetting({1: 2}), "StepwiseSetting({1: 2}), without a value to begin with", "add the key 0"),
        (lambda: EpochwiseSetting({0: 2}), "EpochwiseSetting with the key 0", "give an int"),
        (lambda: StepwiseSetting({0: 1, 2.0: 2}), "StepwiseSetting with the key 2.0", "give an int"),  # type: ignore[dict-item]
        (lambda: StepwiseSetting({False: 1}), "StepwiseSetting with the key False", "give an int"),
        (
            lambda: StepwiseSetting({0: EpochwiseSetting({1: 2})}),
            "StepwiseSetting with the value EpochwiseSetting({1: 2})",
            "write one table",
        ),
        (
            lambda: ComputedSetting(lambda batch: 1),
            "the function of a setting '<lambda>' asks for 'batch'",
            "name only epoch, step, updates",
        ),
    ],
)
def test_what_has_no_value_at_some_point_is_refused(make: Callable[[], Any], given: str, next_step: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make()
    assert caught.value.given == given
    assert caught.value.next_step == next_step


def test_equal_tables_are_equal() -> None:
    def rate(step: int) -> float:
        return 1 / (1 + step)

    assert StepwiseSetting({0: 1, 2: 3}) == StepwiseSetting({2: 3, 0: 1})
    assert StepwiseSetting({0: 1}) != StepwiseSetting({0: 2})
    assert StepwiseSetting({0: 1, 1: 1}) != EpochwiseSetting({1: 1})
    assert ComputedSetting(rate) == ComputedSetting(rate) != ComputedSetting(lambda: 1)
