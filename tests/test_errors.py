"""Errors have three parts, and survive the way between processes."""

import copy
import inspect
import pickle

import pytest

from growkit import errors
from growkit.errors import GrowkitError, SizeError, nearest

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


def test_a_misspelt_name_finds_its_neighbours_and_a_strange_one_none() -> None:
    known = ["learning_rate", "log_every", "batch_size", "learning_rates"]
    assert nearest("learing_rate", known) == ["learning_rate"]
    assert nearest("learing_rate", known, 3) == ["learning_rate", "learning_rates"]
    assert nearest("batchsize", known) == ["batch_size"]
    assert nearest("zzz", known) == []


def test_there_are_types_to_test() -> None:
    assert len(TYPES) > 10
