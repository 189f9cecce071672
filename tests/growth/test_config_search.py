from __future__ import annotations

from typing import Any

from growkit.growth.config_search import BUDGET, changed, leaves, search, unlike
from growkit.growth.constructed import Difference, Facts

BASE = {"width": 12, "heads": 3, "inner": None, "ratio": 2, "seed": 12, "sizes": [5, 6], "part": {"width": 12}}


def build(entries: dict[str, Any]) -> Facts:
    """Of a class with heads that divide the width."""
    width, heads = entries["width"], entries["heads"]
    if width % heads:
        raise ValueError(f"{width} is no multiple of {heads}")
    inner = entries["inner"] if entries["inner"] is not None else 4 * width
    shapes = {"up": (width, inner), "mix": (entries["ratio"] * width,), "part": (entries["part"]["width"],)}
    return shapes | {f"sizes.{i}.weight": (size,) for i, size in enumerate(entries["sizes"])} | {"dim": width // heads}


def kept(**entries: Any) -> Facts:
    return build({**BASE, **entries})


def test_only_what_has_to_change_does() -> None:
    fewest, also = search(BASE, kept(width=24, heads=6, inner=96), build, [(12, 24), (3, 6)], ())
    assert fewest.complete
    assert dict(fewest.changes) == {("width",): 24, ("heads",): 6}
    assert dict(also.changes) == {("width",): 24, ("heads",): 6, ("seed",): 24}


def test_what_was_left_to_a_default_is_set_and_multiples_follow() -> None:
    (found, *_) = search(BASE, kept(width=24, heads=6, inner=48, ratio=1), build, [(12, 24), (3, 6)], ())
    assert dict(found.changes) == {("width",): 24, ("heads",): 6, ("inner",): 48, ("ratio",): 1}


def test_entries_inside_others_are_changed() -> None:
    (found, *_) = search(BASE, kept(sizes=[5, 12], part={"width": 36}), build, [(6, 12), (12, 36)], ())
    assert dict(found.changes) == {("sizes", 1): 12, ("part", "width"): 36}


def test_nothing_has_to_change() -> None:
    (found, *_) = search(BASE, kept(), build, [], ())
    assert found.complete
    assert not found.changes


def test_a_list_gets_the_entries_of_new_blocks() -> None:
    (found, *_) = search(BASE, kept(sizes=[5, 5, 6]), build, [(2, 3)], (), [(0, 0, 1)])
    assert dict(found.changes) == {("sizes",): (5, 5, 6)}
    assert changed(BASE, found.changes)["sizes"] == [5, 5, 6]


def test_what_cannot_be_built_is_named_after_a_bounded_number_of_tries() -> None:
    built = []

    def counted(entries: dict[str, Any]) -> Facts:
        built.append(entries)
        return build(entries)

    (found,) = search(BASE, {**kept(), "mix": (25,)}, counted, [(24, 25)], ())
    assert not found.complete
    assert [str(d) for d in found.remaining] == ["mix would be 24, and is 25"]
    assert not found.changes
    assert len(built) <= BUDGET + 1


def test_an_entry_that_the_class_refuses_is_named() -> None:
    grown = {**kept(width=18), "dim": 4}  # four heads
    (found,) = search(BASE, grown, build, [(12, 18), (3, 4)], ())
    assert dict(found.changes) == {("width",): 18}
    assert found.refused == "heads=4 is refused: ValueError: 18 is no multiple of 4"


def test_a_layer_unlike_others_of_its_kind_is_named() -> None:
    difference = Difference("layers.0.up", (7,), (5,))
    assert unlike([difference], {"layers.0.up": (7,), "layers.1.up": (5,)}) == {"layers.0.up": "layers.1.up"}
    assert unlike([difference], {"layers.0.up": (7,), "layers.1.up": (6,)}) == {}
    assert unlike([Difference("layers.2.up", None, (5,))], {"layers.1.up": (5,)}) == {}


def test_entries_are_changed_in_a_copy() -> None:
    entries = {"a": [1, 2], "b": {"c": 3}, "t": (4, 5)}
    other = changed(entries, {("a", 1): 7, ("b", "c"): 8, ("t", 0): 9, ("new",): 10})
    assert other == {"a": [1, 7], "b": {"c": 8}, "t": (9, 5), "new": 10}
    assert entries == {"a": [1, 2], "b": {"c": 3}, "t": (4, 5)}


def test_leaves_are_numbers_and_what_is_not_set() -> None:
    entries = {"a": 1, "b": True, "c": "x", "d": [2.5, None], "e": None, "labels": {0: 3}}
    assert dict(leaves(entries)) == {("a",): 1, ("d", 0): 2.5, ("e",): None}


def _heads(entries: dict[str, Any]) -> Facts:
    """Of a class with heads of an own width, by default that of the stream divided by their number."""
    width, heads = entries["width"], entries["heads"]
    inner = heads * (entries["head_dim"] or width // heads)
    return {"query": (inner, width), "head_dim": inner // heads, "scale": (inner // heads) ** -0.5}


def test_an_entry_that_is_called_like_a_number_of_the_model_is_set() -> None:
    base = {"width": 12, "heads": 3, "head_dim": None}
    (found, *_) = search(base, _heads({**base, "heads": 6, "head_dim": 4}), _heads, [(3, 6)], ())
    assert dict(found.changes) == {("heads",): 6, ("head_dim",): 4}
