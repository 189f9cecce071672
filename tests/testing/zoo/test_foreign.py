"""Tests of the index of models of other libraries."""

from __future__ import annotations

import importlib

import pytest

from growkit.errors import MissingLibraryError
from growkit.testing.zoo import FOREIGN, ZOO
from growkit.testing.zoo.foreign import FAMILIES, Family, Foreign


@pytest.mark.slow
@pytest.mark.parametrize("module", FAMILIES)
def test_the_index_names_the_models_of_each_module(module: str) -> None:
    entries = importlib.import_module(f"growkit.testing.zoo.{module}").ENTRIES
    assert tuple(entry.name for entry in entries) == FAMILIES[module].names


def test_names_are_unique() -> None:
    names = [*ZOO, *FOREIGN]
    assert len(names) == len(set(names)) == len(ZOO) + len(FOREIGN)


def test_an_entry_is_found_by_its_name() -> None:
    assert FOREIGN["GPT-2"].name == "GPT-2"
    with pytest.raises(KeyError):
        FOREIGN["GPT-1"]


def test_names_are_listed_without_the_library_and_an_entry_says_which_is_missing() -> None:
    index = Foreign({"absent": Family("a-library", ("one", "two"))})
    assert list(index) == ["one", "two"]
    with pytest.raises(MissingLibraryError, match="a model of a-library, and no module growkit.testing.zoo.absent"):
        index["two"]
