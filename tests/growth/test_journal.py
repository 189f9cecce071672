"""Writes, and taking them back."""

import gc
import weakref
from types import SimpleNamespace

import pytest

from growkit.growth.journal import Journal


def test_every_write_is_taken_back_in_order() -> None:
    mapping, keys, items, numbers = {"a": 1}, {"x": 1, "y": 2}, {"p": 1, "q": 2}, [1, 2, 3]
    owner = SimpleNamespace(size=4)
    journal = Journal()
    journal.set_item(mapping, "a", 2)
    journal.set_item(mapping, "a", 3)
    journal.set_item(mapping, "b", 4)
    journal.keep_order(keys)
    journal.del_item(keys, "x")
    journal.set_item(keys, "z", 5)
    journal.replace_items(items, [("r", 9), ("p", 1)])
    journal.set_element(numbers, 1, 7)
    journal.set_elements(numbers, [8])
    journal.set_attribute(owner, "size", 5)
    assert (mapping, keys, list(items), numbers, owner.size) == ({"a": 3, "b": 4}, {"y": 2, "z": 5}, ["r", "p"], [8], 5)
    assert journal.writes == 9
    journal.undo()
    assert (mapping, list(keys.items()), list(items.items())) == ({"a": 1}, [("x", 1), ("y", 2)], [("p", 1), ("q", 2)])
    assert (numbers, owner.size) == ([1, 2, 3], 4)


def test_undo_twice_is_undo_once() -> None:
    mapping = {"a": 1}
    journal = Journal()
    journal.set_item(mapping, "a", 2)
    journal.undo()
    mapping["a"] = 5
    journal.undo()
    assert mapping == {"a": 5}


def test_a_write_that_fails_can_be_taken_back() -> None:
    class Closed(dict[str, int]):
        def __setitem__(self, key: str, value: int) -> None:
            raise OSError("closed")

    mapping = Closed()
    journal = Journal()
    with pytest.raises(OSError, match="closed"):
        journal.set_item(mapping, "a", 1)
    journal.undo()
    assert mapping == {}


def test_attributes_are_written_past_setattr() -> None:
    class Frozen:
        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError

    owner = Frozen()
    Journal().set_attribute(owner, "size", 3)
    assert vars(owner) == {"size": 3}


@pytest.mark.parametrize("keep", [True, False])
def test_old_values_live_as_long_as_they_may_be_needed(keep: bool) -> None:
    class Value:
        pass

    mapping = {"a": Value()}
    old = weakref.ref(mapping["a"])
    journal = Journal(keep)
    journal.keep_order(mapping)
    journal.set_item(mapping, "a", Value())
    gc.collect()
    assert (old() is not None) is keep
    journal.undo()
    assert (mapping["a"] is old()) is keep


def test_what_another_journal_wrote_is_taken_back() -> None:
    mapping = {"a": 1}
    trial, journal = Journal(), Journal()
    journal.set_item(mapping, "a", 2)
    trial.set_item(mapping, "a", 3)
    journal.take_over(trial)
    assert journal.writes == 2
    journal.undo()
    assert mapping == {"a": 1}
