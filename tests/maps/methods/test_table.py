"""The methods by name."""

import pytest

from growkit.errors import NameLookupError
from growkit.maps.methods.table import METHODS, method


def test_every_method_keeps_the_old_units() -> None:
    for name in METHODS:
        made = method(name).make(3, 7)
        assert made.source[:3] == (0, 1, 2)
        assert made.new_size == 7


def test_unknown_name() -> None:
    with pytest.raises(
        NameLookupError,
        match=r"allowed: copy, fresh, .*, mean_pad, isometric, rms_pad, std_pad\n.*: did you mean 'copy'\?",
    ):
        method("coppy")


def test_a_name_like_none_gets_no_guess() -> None:
    with pytest.raises(NameLookupError) as error:
        method("@@@@")
    assert error.value.next_step == "choose one of these"


@pytest.mark.parametrize("name", [5, None, ["copy"], b"copy"])
def test_what_is_no_name(name: object) -> None:
    with pytest.raises(NameLookupError, match="allowed: copy, fresh"):
        method(name)  # type: ignore[arg-type]
