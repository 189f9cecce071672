"""Updates of settings."""

import json
from typing import Any

import pytest
import torch

from growkit.errors import SettingsError
from growkit.train.config_updates import RESET, SettingsInForce
from growkit.train.setting_values import EpochwiseSetting, StepwiseSetting
from growkit.train.settings import Settings


def update(updates: dict[str, object]) -> Settings:
    return SettingsInForce(Settings(log_every=7)).updated(updates).settings


def test_updates_change_what_they_name_and_nothing_else() -> None:
    changed = update({"learning_rate": 0.2, "accumulate_steps": 3})
    assert changed == Settings(learning_rate=0.2, accumulate_steps=3, log_every=7)


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError) as caught:
        update({"learnin_rate": 0.2})
    assert str(caught.value) == (
        "the setting 'learnin_rate'\n"
        "  allowed: the settings learning_rate, accumulate_steps, gradient_clip_norm, batch_size, "
        "log_every, evaluate_every, gradient_clip_value, truncated_bptt_steps, time_dims, update_every, "
        "carry_over_batches, precision, nonfinite, schedule_by, ema_decay, checkpoint_every, checkpoint_every_epochs, "
        "keep_last, keep_best, best_metric, best_mode, train_data\n"
        "  next step: write 'learning_rate'"
    )


@pytest.mark.parametrize(
    ("theirs", "next_step"),
    [
        ("lr", "write 'learning_rate'"),
        ("max_grad_norm", "write 'gradient_clip_norm'"),
        ("gradient_clip_val", "write 'gradient_clip_norm'"),
        ("accumulate_grad_batches", "write 'accumulate_steps'"),
        ("accum_grad_multiple_step", "write 'accumulate_steps'"),
        ("gradient_accumulation_steps", "write 'accumulate_steps'"),
        ("check_val_every_n_epoch", "write 'evaluate_every'"),
        ("train_dataloader", "write 'train_data'"),
        ("tbptt_steps", "write 'truncated_bptt_steps'"),
        ("hiddens", "return (loss, carry) from the train step, and name `carry` in its signature"),
        ("optimizer_idx", "pass Engine(optimizers={...}): the train step names `optimizer`, or yields (name, loss)"),
        ("zzz", "remove it, or declare it in Settings(user={...})"),
        ("user", "write the keys of user themselves"),
    ],
)
def test_the_words_of_other_trainers_are_translated(theirs: str, next_step: str) -> None:
    with pytest.raises(SettingsError) as caught:
        update({theirs: 1})
    assert caught.value.next_step == next_step


@pytest.mark.parametrize(
    "updates", [{"learning_rate": "fast"}, {"accumulate_steps": 0}, {"learning_rate": None}, {"log_every": 1.5}]
)
def test_a_wrong_value_is_refused(updates: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        update(updates)


def test_a_key_of_the_users_is_updated_like_any_other() -> None:
    before = Settings(user={"temperature": 2.0, "stage": "first"})
    updates = {"temperature": 0.5, "log_every": 3}
    after = SettingsInForce(before).updated(updates).settings
    assert after == Settings(log_every=3, user={"temperature": 0.5, "stage": "first"})
    assert before.user == {"temperature": 2.0, "stage": "first"}


@pytest.mark.report("R137")
def test_a_misspelt_key_of_the_users_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError) as caught:
        SettingsInForce(Settings(user={"max_length": 9})).updated({"max_lenght": 20})
    assert caught.value.next_step == "write 'max_length'"
    assert caught.value.allowed.endswith("best_mode, train_data, max_length")


def test_the_data_is_no_setting() -> None:
    assert update({"train_data": [1]}) == Settings(log_every=7)


# ------------------------------------------------------------------------------------------------ in force


def test_updates_stay_until_they_are_changed_or_reset() -> None:
    given = Settings(gradient_clip_norm=1.0, user={"stage": "first"})
    first = SettingsInForce(given).updated({"gradient_clip_norm": None, "batch_size": 4, "stage": "second"})
    assert first.settings == Settings(gradient_clip_norm=None, batch_size=4, user={"stage": "second"})
    second = first.updated({"batch_size": 8, "gradient_clip_norm": RESET})
    assert second.settings == Settings(gradient_clip_norm=1.0, batch_size=8, user={"stage": "second"})
    assert second.updates == {"batch_size": 8, "stage": "second"}
    third = second.updated({"stage": RESET, "batch_size": RESET, "log_every": RESET})
    assert third.updates == {}
    assert third.settings == given
    assert first.settings.batch_size == 4


def test_one_wrong_update_refuses_all() -> None:
    before = SettingsInForce(Settings())
    for updates in ({"batch_size": 4, "log_every": 0}, {"batch_size": 4, "loge_very": 1}):
        with pytest.raises(SettingsError):
            before.updated(updates)
    assert before.settings == Settings()


def test_updates_go_on_from_a_checkpoint_and_win_over_what_is_given_then() -> None:
    rates = {"gen": 1e-3, "disc": StepwiseSetting({0: 1e-3, 5: 1e-4})}
    before = SettingsInForce(Settings(learning_rate=rates)).updated({"learning_rate": {"gen": 0.5}, "log_every": 3})
    saved = json.loads(json.dumps(before.updates))
    assert SettingsInForce(Settings(learning_rate=rates), saved) == before
    again = SettingsInForce(Settings(learning_rate={**rates, "gen": 0.25}, log_every=9), saved)
    assert again.at(epoch=1, step=5, updates=5) == Settings(learning_rate={"gen": 0.5, "disc": 1e-4}, log_every=3)


@pytest.mark.parametrize(
    ("given", "saved", "refused"),
    [
        (Settings(), {"stage": 1}, "the setting 'stage'"),
        (Settings(learning_rate=0.1), {"learning_rate": {"gen": 0.5}}, "an update of learning_rate to {'gen': 0.5}"),
        (Settings(batch_size=EpochwiseSetting({1: 2})), {"batch_size": 3}, "an update of batch_size to 3, beside"),
        (Settings(), {"train_data": 3}, "train_data among the updates in force"),
    ],
)
def test_updates_of_a_checkpoint_that_do_not_fit_are_refused(given: Settings, saved: Any, refused: str) -> None:
    with pytest.raises(SettingsError) as caught:
        SettingsInForce(given, saved)
    assert caught.value.given.startswith(refused)


def test_rates_are_updated_by_the_names_of_optimizers() -> None:
    in_force = SettingsInForce(Settings(learning_rate={"gen": 0.1, "disc": 0.2}))
    first = in_force.updated({"learning_rate": {"gen": 0.3}}).updated({"learning_rate": {"disc": 0.4}})
    assert first.settings.learning_rate == {"gen": 0.3, "disc": 0.4}
    assert first.updated({"learning_rate": {"gen": RESET}}).settings.learning_rate == {"gen": 0.1, "disc": 0.4}
    assert first.updated({"learning_rate": RESET}) == in_force
    own = SettingsInForce(Settings()).updated({"learning_rate": {"gen": 0.3}})
    assert own.settings.learning_rate == {"gen": 0.3}


@pytest.mark.parametrize(
    ("given", "updates", "refused"),
    [
        (
            {"learning_rate": StepwiseSetting({0: 0.1})},
            {"learning_rate": 0.2},
            "an update of learning_rate to 0.2, beside learning_rate=StepwiseSetting({0: 0.1}) in Settings",
        ),
        (
            {"learning_rate": {"a": lambda: 0.1}},
            {"learning_rate": {"a": 0.2}},
            "an update of learning_rate['a'] to 0.2, beside learning_rate['a']=ComputedSetting(<lambda>) in Settings",
        ),
        (
            {"user": {"p": EpochwiseSetting({1: 2})}},
            {"p": 3},
            "an update of p to 3, beside p=EpochwiseSetting({1: 2}) in Settings",
        ),
        ({}, {"batch_size": StepwiseSetting({0: 2})}, "an update of batch_size to StepwiseSetting({0: 2})"),
        ({"user": {"p": 1}}, {"p": StepwiseSetting({0: 2})}, "an update of p to StepwiseSetting({0: 2})"),
        ({}, {"learning_rate": RESET}, "an update of learning_rate to RESET"),
        ({"learning_rate": {"a": 0.1}}, {"learning_rate": {"b": RESET}}, "an update of learning_rate['b'] to RESET"),
        ({"learning_rate": {"a": 0.1}}, {"learning_rate": {"a": None}}, "an update of learning_rate['a'] to None"),
        (
            {"learning_rate": {"a": 0.1}},
            {"learning_rate": 0.1},
            "an update of learning_rate to 0.1, which is {'a': 0.1}",
        ),
        ({"learning_rate": 0.1}, {"learning_rate": {"a": 1}}, "an update of learning_rate to {'a': 1}, which is 0.1"),
        ({"ema_decay": 0.9}, {"ema_decay": None}, "an update of ema_decay from 0.9 to None"),
        ({}, {"precision": "bf16"}, "an update of precision"),
    ],
)
def test_what_cannot_be_updated_is_refused(given: Any, updates: dict[str, object], refused: str) -> None:
    before = SettingsInForce(Settings(**given))
    with pytest.raises(SettingsError) as caught:
        before.updated(updates)
    assert caught.value.given == refused


def test_what_is_on_or_off_for_good_may_take_another_value() -> None:
    given = Settings(truncated_bptt_steps=3, time_dims=1, ema_decay=0.9)
    changed = SettingsInForce(given).updated({"truncated_bptt_steps": 5, "ema_decay": 0.99, "time_dims": {"x": 1}})
    assert changed.settings == Settings(truncated_bptt_steps=5, time_dims={"x": 1}, ema_decay=0.99)
    assert changed.updated(dict.fromkeys(changed.updates, RESET)).settings == given


def test_a_function_among_the_keys_of_the_users_is_a_value() -> None:
    changed = SettingsInForce(Settings(user={"activation": torch.relu})).updated({"activation": torch.tanh})
    assert changed.at(epoch=1, step=0, updates=0).user == {"activation": torch.tanh}


def test_data_is_left_to_the_caller() -> None:
    assert SettingsInForce(Settings()).updated({"train_data": [1]}).updates == {}
