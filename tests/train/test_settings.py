"""Settings and their ranges."""

from typing import Any

import pytest

from growkit.errors import SettingsError
from growkit.train.setting_values import ComputedSetting, EpochwiseSetting, StepwiseSetting
from growkit.train.settings import Settings


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("learning_rate", -0.1, "learning_rate=-0.1"),
        ("learning_rate", float("nan"), "learning_rate=nan"),
        ("learning_rate", "fast", "learning_rate='fast' (str)"),
        ("learning_rate", True, "learning_rate=True (bool)"),
        ("accumulate_steps", 0, "accumulate_steps=0"),
        ("accumulate_steps", 2.0, "accumulate_steps=2.0 (float)"),
        ("accumulate_steps", None, "accumulate_steps=None (NoneType)"),
        ("gradient_clip_norm", 0.0, "gradient_clip_norm=0.0"),
        ("gradient_clip_norm", float("inf"), "gradient_clip_norm=inf"),
        ("batch_size", 0, "batch_size=0"),
        ("log_every", True, "log_every=True (bool)"),
        ("evaluate_every", 0, "evaluate_every=0"),
    ],
)
def test_a_value_out_of_range_or_of_the_wrong_type_is_refused(name: str, value: object, given: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**{name: value})
    assert caught.value.given == given


def test_every_value_at_the_edge_is_taken() -> None:
    settings = Settings(learning_rate=0.0, accumulate_steps=1, gradient_clip_norm=1e-9, batch_size=1, log_every=1)
    assert settings.learning_rate == 0.0
    assert Settings().learning_rate is None


def test_keys_of_the_users_are_copied_and_may_not_be_taken() -> None:
    given = {"stage": 1}
    settings = Settings(user=given)
    given["stage"] = 2
    assert settings.user == {"stage": 1}
    for user, refused in (
        ({"batch_size": 3}, "the key 'batch_size' in user"),
        ({"train_data": 3}, "the key 'train_data' in user"),
        ({1: 3}, "the key 1 in user"),
        ([("stage", 1)], "user=[('stage', 1)] (list)"),
    ):
        with pytest.raises(SettingsError) as caught:
            Settings(user=user)  # type: ignore[arg-type]
        assert caught.value.given == refused


# ---------------------------------------------------------------------------------------------- changing by themselves


def test_settings_at_a_point_are_plain_values() -> None:
    settings = Settings(
        learning_rate={"gen": lambda step: 1 / (1 + step), "disc": StepwiseSetting({0: 1e-3, 4: 5e-4}), "other": None},
        accumulate_steps=EpochwiseSetting({1: 1, 2: 4}),
        batch_size=lambda updates: 8 + updates,
        gradient_clip_norm=EpochwiseSetting({1: None, 3: 2.0}),
        user={
            "keep": StepwiseSetting({0: "a", 3: "b"}),
            "function": max,
            "computed": ComputedSetting(lambda epoch: -epoch),
        },
    )
    assert settings.at(epoch=2, step=3, updates=1) == Settings(
        learning_rate={"gen": 0.25, "disc": 1e-3, "other": None},
        accumulate_steps=4,
        batch_size=9,
        gradient_clip_norm=None,
        user={"keep": "b", "function": max, "computed": -2},
    )
    assert settings.at(epoch=3, step=4, updates=3).learning_rate == {"gen": 0.2, "disc": 5e-4, "other": None}
    assert not settings.is_constant
    assert settings.at(epoch=3, step=4, updates=3).is_constant


def test_constant_settings_are_the_same_at_every_point() -> None:
    settings = Settings(learning_rate={"gen": 0.1}, user={"function": max, "table": {"a": len}})
    assert settings.is_constant
    assert settings.at(epoch=2, step=3, updates=1) is settings


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("learning_rate", lambda step: -1.0 * step, "learning_rate=-3.0, from ComputedSetting(<lambda>)"),
        ("learning_rate", {"a": lambda: "fast"}, "learning_rate['a']='fast' (str), from ComputedSetting(<lambda>)"),
        ("accumulate_steps", lambda epoch: epoch / 2, "accumulate_steps=1.0 (float), from ComputedSetting(<lambda>)"),
        ("batch_size", lambda: lambda: 3, None),
    ],
)
def test_a_computed_value_is_checked_as_a_constant_would_be(name: str, value: object, given: str | None) -> None:
    settings = Settings(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(SettingsError) as caught:
        settings.at(epoch=2, step=3, updates=1)
    assert caught.value.given.endswith(" at epoch 2, step 3, after 1 updates")
    assert given is None or caught.value.given == f"{given} at epoch 2, step 3, after 1 updates"


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        (
            {"learning_rate": StepwiseSetting({0: 0.1, 9: -1.0})},
            "learning_rate=-1.0, from StepwiseSetting({0: 0.1, 9: -1.0})",
        ),
        ({"batch_size": EpochwiseSetting({1: 0})}, "batch_size=0, from EpochwiseSetting({1: 0})"),
        (
            {"learning_rate": {"a": EpochwiseSetting({1: "x"})}},
            "learning_rate['a']='x' (str), from EpochwiseSetting({1: 'x'})",
        ),
        ({"learning_rate": {}}, "learning_rate={}"),
        ({"learning_rate": {1: 0.1}}, "learning_rate={1: 0.1}"),
        ({"accumulate_steps": {"a": 1}}, "accumulate_steps={'a': 1} (dict)"),
        ({"log_every": StepwiseSetting({0: 5})}, "log_every=StepwiseSetting({0: 5}) (StepwiseSetting)"),
        ({"precision": "fp32"}, "precision='fp32'"),
        ({"carry_over_batches": 1}, "carry_over_batches=1"),
        ({"ema_decay": 1.0}, "ema_decay=1.0"),
        ({"keep_best": 2}, "keep_best=2 with best_metric=None"),
        ({"best_metric": "loss"}, "keep_best=0 with best_metric='loss'"),
        ({"truncated_bptt_steps": True, "time_dims": 1}, "truncated_bptt_steps=True (bool)"),
        ({"truncated_bptt_steps": -1, "time_dims": 1}, "truncated_bptt_steps=-1"),
    ],
)
def test_what_could_not_hold_is_refused_when_it_is_given(given: Any, refused: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings(**given)
    assert caught.value.given == refused
