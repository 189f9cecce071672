"""Names that are no setting, in the words of other trainers."""

from dataclasses import fields

import pytest

from growkit.errors import SettingsError
from growkit.train import Settings
from growkit.train import setting_names as names


@pytest.mark.parametrize(
    ("key", "next_step"),
    [
        ("accumulate_grad_batches", "write 'accumulate_steps'"),
        ("lr", "write 'learning_rate'"),
        ("hiddens", "return (loss, carry) from the train step, and name `carry` in its signature"),
        ("optimizer_idx", "pass Engine(optimizers={...}): the train step names `optimizer`, or yields (name, loss)"),
        ("log_evry", "write 'log_every'"),
        ("zzz", "remove it, or declare it in Settings(user={...})"),
    ],
)
def test_settings_say_what_is_meant(key: str, next_step: str) -> None:
    with pytest.raises(SettingsError, match=f"the setting '{key}'") as caught:
        Settings(**{key: 1})
    assert caught.value.next_step == next_step


def test_what_is_meant_is_a_setting() -> None:
    known = {setting.name for setting in fields(Settings)} | {names.TRAIN_DATA}
    assert set(names._OTHER_WORDS.values()) <= known
    assert not known & {*names._OTHER_WORDS, *names._OTHER_WAYS}


def test_a_name_is_proposed_only_where_it_is_known() -> None:
    assert "learning_rate" not in str(names.unknown_setting("lr", ["batch_size"]))
