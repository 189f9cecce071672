"""Checks of single values."""

import pytest

from growkit.errors import SettingsError
from growkit.train import setting_checks as checks


@pytest.mark.parametrize(
    ("check", "taken", "refused"),
    [
        (checks.number("", lowest=0.0, below=1.0), [None, 0, 0.0, 0.999], [1, 1.0, -0.1, True, "0"]),
        (checks.number("", above=0.0), [1e-300, 7], [0, 0.0, float("nan"), float("inf"), 10**400]),
        (checks.count(), [None, 1, 99], [0, -1, 1.0, True]),
        (checks.count(lowest=0, or_none=False), [0, 1], [None, -1, False]),
        (checks.one_of("a", None), ["a", None], ["b", 0, False]),
        (checks.one_of(False, True), [False, True], [0, 1, None]),
        (checks.text, ["a", None], [0]),
        (checks.time_dims, [None, 1, {"x": 1, "y": None}], [True, "x", {"x": "y"}, {1: 1}]),
    ],
)
def test_checks_take_what_is_in_range_and_refuse_the_rest(
    check: checks.Check, taken: list[object], refused: list[object]
) -> None:
    for value in taken:
        check("name", value)
    for value in refused:
        with pytest.raises(SettingsError) as caught:
            check("name", value)
        assert "name" in caught.value.given or "time_dims" in caught.value.given
