"""Settings of a script and of the command line."""

import pytest

from growkit.cli.script_settings import effective_settings
from growkit.errors import SettingsError
from growkit.train import Settings


@pytest.mark.report("R194")
def test_a_rate_is_the_same_number_from_file_and_command_line() -> None:
    from_file, _ = effective_settings({"learning_rate": 3e-4}, [])
    from_line, _ = effective_settings(None, ["learning_rate=3e-4"])
    assert from_file == from_line == Settings(learning_rate=0.0003)


@pytest.mark.report("R194")
def test_a_rate_as_text_is_refused_by_its_type() -> None:
    with pytest.raises(SettingsError, match=r"learning_rate='3e-4' \(str\)"):
        effective_settings({"learning_rate": "3e-4"}, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accumulate_steps=2", Settings(accumulate_steps=2)),
        ("precision=bf16", Settings(precision="bf16")),
        ("keep_last=None", Settings(keep_last=None)),
        ("learning_rate={'low': 1e-3}", Settings(learning_rate={"low": 1e-3})),
        ("carry_over_batches=True", Settings(carry_over_batches=True)),
    ],
)
def test_values_are_typed_like_the_setting(text: str, expected: Settings) -> None:
    assert effective_settings(None, [text])[0] == expected


@pytest.mark.parametrize("text", ["accumulate_steps=2.0", "carry_over_batches=yes", "log_every=ten"])
def test_values_of_another_type(text: str) -> None:
    with pytest.raises(SettingsError, match=text.partition("=")[0]):
        effective_settings(None, [text])


@pytest.mark.report("R162")
@pytest.mark.parametrize("given", [{"truncated_bptt_steps": 20}, Settings(truncated_bptt_steps=20)])
def test_where_a_setting_comes_from_and_what_contradicts_it(given: object) -> None:
    name = "truncated_bptt_steps"
    settings, sources = effective_settings(given, [])
    assert (settings.truncated_bptt_steps, sources[name], sources["log_every"]) == (20, "script", "default")
    settings, sources = effective_settings(None, [f"{name}=30"])
    assert (settings.truncated_bptt_steps, sources[name]) == (30, "command line")
    assert effective_settings(given, [f"{name}=20"])[0].truncated_bptt_steps == 20
    with pytest.raises(SettingsError, match="--set truncated_bptt_steps=30, and the script sets .* to 20"):
        effective_settings(given, [f"{name}=30"])
    with pytest.raises(SettingsError, match="with 30 and with 40"):
        effective_settings(None, [f"{name}=30", f"{name}=40"])


def test_keys_of_the_user_are_set_too() -> None:
    settings, sources = effective_settings({"user": {"stage": 1}}, ["stage=2"])
    assert settings.user == {"stage": 2}
    assert sources["stage"] == "command line"


@pytest.mark.parametrize(
    ("given", "assigned", "hint"),
    [
        (None, ["lr=1"], "learning_rate"),
        (None, ["batchsize=1"], "batch_size"),
        ({"accumulate_grad_batches": 2}, [], "accumulate_steps"),
        ({"logevery": 2}, [], "log_every"),
    ],
)
def test_unknown_settings(given: object, assigned: list[str], hint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        effective_settings(given, assigned)
    assert caught.value.next_step == f"write {hint!r}"


def test_what_is_no_setting_at_all() -> None:
    with pytest.raises(SettingsError, match="key=value"):
        effective_settings(None, ["learning_rate"])
    with pytest.raises(SettingsError, match="settings of type list"):
        effective_settings([], [])
