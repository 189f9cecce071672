"""Recurrent networks: their axes, written by hand.

The states of all directions and layers of one recurrent layer are returned as one tensor, so they are one axis.
"""

from __future__ import annotations

import pytest

from growkit.discovery.discover import discover
from growkit.testing.zoo import ZOO
from tests.testing.zoo.layers import Layouts, check_entry, families, linear, recurrent

H = "hidden"
BOTH = "[hidden|hidden]"


def _around(leaving: str) -> Layouts:
    return linear("enter", "a", "in") | linear("leave", "out", leaving)


def _projected(layer: str, read: str) -> Layouts:
    gates = "[hidden|hidden|hidden|hidden]:produces"
    return {
        f"layer.weight_ih_{layer}": f"{gates} {read}:consumes",
        f"layer.weight_hh_{layer}": f"{gates} state:consumes",
        f"layer.bias_ih_{layer}": gates,
        f"layer.bias_hh_{layer}": gates,
        f"layer.weight_hr_{layer}": "state:produces hidden:consumes",
    }


WRITTEN = families(
    ("LSTM", {**_around(H), **recurrent("layer", 4, H, "a")}),
    (
        "deep bidirectional LSTM",
        {
            **_around(BOTH),
            **recurrent("layer", 4, H, "a"),
            **recurrent("layer", 4, H, "a", "l0_reverse"),
            **recurrent("layer", 4, H, BOTH, "l1"),
            **recurrent("layer", 4, H, BOTH, "l1_reverse"),
        },
    ),
    ("projected LSTM", {**_around("state"), **_projected("l0", "a"), **_projected("l1", "state")}),
    (
        "deep GRU",
        {**_around(H), **recurrent("layer", 3, H, "a", bias=False), **recurrent("layer", 3, H, H, "l1", bias=False)},
    ),
    (
        "bidirectional GRU",
        {**_around(BOTH), **recurrent("layer", 3, H, "a"), **recurrent("layer", 3, H, "a", "l0_reverse")},
    ),
    ("plain recurrent layers", {**_around(H), **recurrent("layer", 1, H, "a"), **recurrent("layer", 1, H, H, "l1")}),
    ("GRU with a given state", {**_around(H), **recurrent("layer", 3, H, "a")}),
    (
        "packed LSTM",
        {
            "enter.weight": "entries:produces a:produces",
            **recurrent("layer", 4, H, "a"),
            **recurrent("layer", 4, H, "a", "l0_reverse"),
            **linear("leave", "out", BOTH),
            **linear("every", "out2", BOTH),
        },
    ),
    (
        "recurrent cells",
        {
            **{k.replace("_l0", ""): v for k, v in recurrent("first", 4, "a", "in").items()},
            **{k.replace("_l0", ""): v for k, v in recurrent("second", 3, "b", "a").items()},
            **linear("leave", "out", "b"),
        },
    ),
)


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_axes_are_those_written_by_hand(name: str, written: Layouts) -> None:
    check_entry(name, written)


NUMBERS = {
    "deep bidirectional LSTM": {"layer.input_size": 6, "layer.hidden_size": 5},
    "projected LSTM": {"layer.hidden_size": 9, "layer.proj_size": 3},
    "recurrent cells": {"first.hidden_size": 5, "second.input_size": 5, "second.hidden_size": 7},
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_the_modules_keep_follow(name: str) -> None:
    model, inputs = ZOO[name].make()
    kept = {number.path: number.value for number in discover(model, inputs).numbers}
    assert NUMBERS[name].items() <= kept.items()


def test_a_given_state_is_an_input() -> None:
    model, inputs = ZOO["GRU with a given state"].make()
    (axis,) = discover(model, inputs)["layer.hidden_size"]
    assert axis.locks[0].reason == "it is an input of the model: its size is that of the data"
