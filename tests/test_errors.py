"""Errors have three parts, and survive the way between processes."""

import copy
import inspect
import pickle

import pytest

from growkit import errors
from growkit.errors import GrowkitError, SizeError

TYPES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, GrowkitError)]


def test_text() -> None:
    error = SizeError("hidden from 8 to 4", "9 and more", "ask for a larger size")
    assert str(error) == "hidden from 8 to 4\n  allowed: 9 and more\n  next step: ask for a larger size"
    assert (error.given, error.allowed, error.next_step) == (
        "hidden from 8 to 4",
        "9 and more",
        "ask for a larger size",
    )


@pytest.mark.parametrize("kind", TYPES)
def test_pickled_and_copied(kind: type[GrowkitError]) -> None:
    for again in (pickle.loads(pickle.dumps(kind("a", "b", "c"))), copy.copy(kind("a", "b", "c"))):
        assert type(again) is kind
        assert (again.given, again.allowed, again.next_step) == ("a", "b", "c")
        assert str(again) == "a\n  allowed: b\n  next step: c"


def test_there_are_types_to_test() -> None:
    assert len(TYPES) > 10
