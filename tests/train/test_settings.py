"""Settings and their ranges."""

import pytest

from growkit.errors import SettingsError
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
