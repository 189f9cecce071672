"""A method is a value."""

import dataclasses

import pytest

from growkit.maps.methods.copy import METHOD


def test_methods_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHOD.name = "other"  # type: ignore[misc]
