"""Updates of settings."""

import pytest
import torch

from growkit.errors import SettingsError
from growkit.train.config_updates import updated_settings
from growkit.train.settings import Settings


def update(updates: dict[str, object]) -> Settings:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    return updated_settings(Settings(log_every=7), updates, optimizers={"main": optimizer}, schedulers={"main": ()})


def test_updates_change_what_they_name_and_nothing_else() -> None:
    changed = update({"learning_rate": 0.2, "accumulate_steps": 3})
    assert changed == Settings(learning_rate=0.2, accumulate_steps=3, log_every=7)


def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError) as caught:
        update({"learnin_rate": 0.2})
    assert str(caught.value) == (
        "the setting 'learnin_rate'\n"
        "  allowed: the settings learning_rate, accumulate_steps, gradient_clip_norm, batch_size, "
        "truncated_bptt_steps, time_dims, update_every, carry_over_batches, log_every, evaluate_every, train_data\n"
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
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    before = Settings(user={"temperature": 2.0, "stage": "first"})
    updates = {"temperature": 0.5, "log_every": 3}
    after = updated_settings(before, updates, optimizers={"main": optimizer}, schedulers={"main": ()})
    assert after == Settings(log_every=3, user={"temperature": 0.5, "stage": "first"})
    assert before.user == {"temperature": 2.0, "stage": "first"}


@pytest.mark.report("R137")
def test_a_misspelt_key_of_the_users_is_refused_with_the_nearest_one() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    with pytest.raises(SettingsError) as caught:
        updated_settings(
            Settings(user={"max_length": 9}),
            {"max_lenght": 20},
            optimizers={"main": optimizer},
            schedulers={"main": ()},
        )
    assert caught.value.next_step == "write 'max_length'"
    assert caught.value.allowed.endswith("evaluate_every, train_data, max_length")


def test_the_data_is_no_setting() -> None:
    assert update({"train_data": [1]}) == Settings(log_every=7)
